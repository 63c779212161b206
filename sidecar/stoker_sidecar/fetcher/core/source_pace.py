"""How many requests of its share a node has at the source at a time, and when it fetches of another's. Pure."""

from collections.abc import Mapping

# A part of what is left of a node's share that is asked for side by side; the second one of small files.
_SIDE_BY_SIDE, _SMALL_SIDE_BY_SIDE = 4, 8
# Bytes up to which a source takes as long to answer as to send; and requests for such, at least.
_SMALL, _LEAST_SMALL = 2**20, 2


def side_by_side(left: int, size: int, most: int) -> int:
    """Return how many requests for a node's share go on at a time, where other nodes wait for what they bring.

    All that is asked for side by side comes at the same time, when all of it has come, and until then there is nothing
    to give: so few of what is left. ``left``: those that have not begun; ``size``: bytes of the next one; ``most``: as
    many as there would be if nobody waited.
    """
    if size <= _SMALL:
        return min(most, max(_LEAST_SMALL, left // _SMALL_SIDE_BY_SIDE))
    return min(most, max(1, left // _SIDE_BY_SIDE))


def helped(left: Mapping[int, int], position: int, nodes: int) -> tuple[int, int] | None:
    """Return the node that the one at ``position`` of ``nodes`` fetches a piece for, and which; None: none.

    ``left``: those that each has not begun, by its position. The piece is counted from the last one, 1. It is never the
    first, which its node begins next; and each of those that help counts by its own distance, so that no two fetch the
    same before they hear of it.
    """
    for other, count in sorted(left.items(), key=lambda each: (-each[1], each[0])):
        if (distance := (position - other) % nodes) < count:
            return other, distance
    return None
