"""Which nodes take a piece from another one while it still comes there, and from which. Pure."""

from collections.abc import Collection, Iterator, Mapping

# To so many a node passes on what it takes itself, at least: one after the other would take too many steps.
_LEAST = 2
# Seconds that one piece may have begun to come before another, and twice as long ago, for both to come side by side.
_TOGETHER = 0.5


def taken_from(taker: int, first: int, sent_to: Collection[int], nodes: Collection[int]) -> int | None:
    """Return the node from which ``taker`` has the piece that the source sends to ``first``; None: from nobody.

    ``sent_to``: those to which the source sends something, now or soon; ``nodes``: all that get on, by position. A
    node is sent one of so many parts of what its source's line carries, so its own line, where that is as wide, carries
    the same to as many others. They are the others that are sent something, and one of the rest. That one passes it on,
    with those behind it, each to as many: another one of them for each of the pieces, since their lines are free.
    """
    if taker == first:
        return None
    sending = sorted({*sent_to, first})
    if taker in sending:
        return first
    rest = sorted({*nodes, taker} - {*sending})
    begin = sending.index(first) * len(rest) // len(sending)
    order = [*rest[begin:], *rest[:begin]]
    at = order.index(taker)
    return first if at == 0 else order[(at - 1) // max(_LEAST, len(sending))]


def way_of(taker: int, first: int, sent_to: Collection[int], nodes: Collection[int]) -> Iterator[int]:
    """Yield the nodes by which ``taker`` has a piece, from the one that gives it to the ``first``; see taken_from."""
    at = taken_from(taker, first, sent_to, nodes)
    while at is not None:
        yield at
        at = taken_from(at, first, sent_to, nodes)


def side_by_side_with(since: float, begun: Mapping[int, float], now: float) -> set[int]:
    """Return the nodes to which something comes together with a piece that began ``since``.

    ``begun``: when what comes to each of them began; seconds of any clock. What began long before is over soon.
    """
    oldest = now - 2 * (now - since) - _TOGETHER
    return {at for at, began in begun.items() if began >= oldest}
