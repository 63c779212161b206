"""Which nodes of a Dataset give each other files, and which group of them stands before which. Pure.

Up to ``MOST_TOGETHER`` nodes are one group. More are several: one group fetches from the source, and each other one
from the group above it in a tree, every member from two of that. So whoever has how many nodes, the source sends one
copy, a node is asked by few, and what changes when a node comes or goes is its own group and those beside it.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

MOST_TOGETHER = 16
# Of several groups each has so many at least; it is closed sooner than full where the hash of its last one says so:
# else a node more would move all the others on.
_LEAST, _CLOSES = 8, 4
# Members of the group above that a node asks: one may be down.
_ABOVE = 2


class HolderNode(NamedTuple):
    """A node that is to have a Dataset. ``address``: host:port where others ask it.

    ``zone``, ``rack``: empty where not known.
    """

    name: str
    address: str
    zone: str = ""
    rack: str = ""


class Neighbourhood(NamedTuple):
    """Whom a node asks, and who may ask it, by host:port; ``position``: its own among itself and ``peers``.

    ``upstream``: those that stand before the source. ``downstream``: those for whom it does. ``distances``: how far
    away ``peers`` and then ``upstream`` are; empty: all are alike.
    """

    peers: tuple[str, ...]
    position: int
    upstream: tuple[str, ...] = ()
    downstream: tuple[str, ...] = ()
    distances: tuple[int, ...] = ()


def neighbourhoods(salt: str, nodes: Sequence[HolderNode]) -> Mapping[str, Neighbourhood]:
    """Return by name what each node is told, where there is anybody else.

    ``salt``: of the Dataset: another one has other groups, so that no node is the first of all.
    """
    if len(nodes) <= MOST_TOGETHER:
        groups = [sorted(nodes)]
    else:
        hashed = {node.name: _hash(salt, node.name) for node in nodes}
        groups = _groups(sorted(nodes, key=lambda node: (node.zone, node.rack, hashed[node.name])), hashed)
    if len(nodes) < 2:
        return {}
    return _told(groups, _above([_hash(salt, min(group).name, "group") for group in groups]))


def _hash(*words: str) -> int:
    return int.from_bytes(blake2b("/".join(words).encode(), digest_size=8).digest())


def _groups(nodes: Sequence[HolderNode], hashed: Mapping[str, int]) -> list[list[HolderNode]]:
    """Cut them where hashes say so: one more or less moves few of the cuts, where a count would move all."""
    groups: list[list[HolderNode]] = [[]]
    for node in nodes:
        last = groups[-1]
        if len(last) == MOST_TOGETHER or (len(last) >= _LEAST and hashed[last[-1].name] % _CLOSES == 0):
            groups.append(last := [])
        last.append(node)
    if len(groups) > 1 and len(groups[-1]) < _LEAST:
        end = groups.pop()
        end = groups.pop() + end
        half = len(end) // 2
        groups += [end] if len(end) <= MOST_TOGETHER else [end[:half], end[half:]]
    return groups


def _above(ranks: Sequence[int]) -> list[int | None]:
    """Return for each group the one above it: the tree of which each part has its least rank at the top, in order.

    Neighbouring groups, of one zone mostly, are near each other in it, and one more or less changes few others.
    """
    above: list[int | None] = []
    right: list[int] = []  # the way from the top to the last one
    for group, rank in enumerate(ranks):
        below: int | None = None
        while right and ranks[right[-1]] > rank:
            below = right.pop()
        above.append(right[-1] if right else None)
        if below is not None:
            above[below] = group
        right.append(group)
    return above


def _told(groups: Sequence[Sequence[HolderNode]], above: Sequence[int | None]) -> Mapping[str, Neighbourhood]:
    upstream: dict[str, tuple[HolderNode, ...]] = {}
    downstream: dict[str, list[str]] = {}
    for group, top in zip(groups, above, strict=True):
        for position, node in enumerate(group if top is not None else ()):
            over = groups[top or 0]
            upstream[node.name] = tuple(over[(position + step) % len(over)] for step in range(_ABOVE))
            for one in upstream[node.name]:
                downstream.setdefault(one.name, []).append(node.address)
    found: dict[str, Neighbourhood] = {}
    for group in groups:
        addresses = tuple(node.address for node in group)
        for position, node in enumerate(group):
            found[node.name] = Neighbourhood(
                addresses[:position] + addresses[position + 1 :],
                position,
                tuple(one.address for one in upstream.get(node.name, ())),
                tuple(downstream.get(node.name, ())),
            )
    return found
