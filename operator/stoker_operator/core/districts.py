"""Which nodes are a group, and which part of a whole each group has: even parts, and few that change. Pure.

Nodes are halved by the bits of their hashes, for as long as halves are about as large as chance makes them; each half
of the nodes has half of the whole then, whoever is in the other. What is not halved any more is a district: it has
groups of nodes that are near each other, among which its part is divided by their sizes. So a node more or less changes
its district, and no node's part is far from that of any other.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

EVERYTHING = 2**32
MOST_TOGETHER = 16
# Of several groups each has so many nodes at least; it is closed sooner than full where the hash of its last one says
# so: else a node more would move all the others on.
_LEAST, _CLOSES = 8, 4
# Of a district, for each zone, so that groups are of one zone mostly; as many as these zones are counted.
_DISTRICT, _MOST_ZONES = 16, 4
# Of an even part, each node's is three quarters to four thirds.
_LESS, _MORE = 3, 4
_BITS = 64


class HolderNode(NamedTuple):
    """A node that is to have a Dataset. ``address``: host:port where others ask it.

    ``zone``, ``rack``: empty where not known.
    """

    name: str
    address: str
    zone: str = ""
    rack: str = ""


class NodeGroup(NamedTuple):
    """Nodes, in order, that have the part of EVERYTHING that begins at ``first``."""

    members: Sequence[HolderNode]
    first: int = 0
    width: int = EVERYTHING


class _Cell(NamedTuple):
    """Nodes whose hashes begin with the same ``depth`` bits."""

    nodes: Sequence[HolderNode]
    depth: int = 0
    first: int = 0

    @property
    def width(self) -> int:
        return EVERYTHING >> self.depth


def node_groups(nodes: Sequence[HolderNode], hashed: Mapping[str, int]) -> Iterator[NodeGroup]:
    """Yield the groups of all nodes; ``hashed``: a number of 64 bits for each name."""
    if len(nodes) <= MOST_TOGETHER:
        yield NodeGroup(sorted(nodes))
        return
    cells = [_Cell(sorted(nodes, key=lambda node: (node.zone, node.rack, hashed[node.name])))]
    while cells:
        cell = cells.pop()
        halves = _halves(cell, hashed)
        if all(_may_stand(half, cell, len(nodes)) for half in halves):
            cells += halves
        else:
            yield from _in_district(cell, hashed)


def _halves(cell: _Cell, hashed: Mapping[str, int]) -> tuple[_Cell, _Cell]:
    sides: tuple[list[HolderNode], list[HolderNode]] = ([], [])
    for node in cell.nodes:
        sides[hashed[node.name] >> (_BITS - 1 - cell.depth) & 1].append(node)
    depth = cell.depth + 1
    return _Cell(sides[0], depth, cell.first), _Cell(sides[1], depth, cell.first + cell.width // 2)


def _may_stand(half: _Cell, cell: _Cell, total: int) -> bool:
    """Tell whether a half has enough nodes, and about as many as are to share its part."""
    zones = min(_MOST_ZONES, len({node.zone for node in cell.nodes}))
    scaled = len(half.nodes) << half.depth
    return len(half.nodes) >= _DISTRICT * zones and _LESS * total <= _MORE * scaled and _LESS * scaled <= _MORE * total


def _in_district(cell: _Cell, hashed: Mapping[str, int]) -> Iterator[NodeGroup]:
    """Divide the cell's part among its groups by how many nodes these have."""
    before, count = 0, len(cell.nodes)
    for members in (group for zone in _zones(cell.nodes) for group in _cut(zone, hashed)):
        begin, end = (cell.first + cell.width * at // count for at in (before, before + len(members)))
        yield NodeGroup(members, begin, end - begin)
        before += len(members)


def _zones(nodes: Sequence[HolderNode]) -> list[list[HolderNode]]:
    """Part the nodes by zones; those of zones that are too small for a group are together, or with another one."""
    by_zone: defaultdict[str, list[HolderNode]] = defaultdict(list)
    for node in nodes:
        by_zone[node.zone].append(node)
    parts = [zone for zone in by_zone.values() if len(zone) >= _LEAST]
    rest = [node for zone in by_zone.values() if len(zone) < _LEAST for node in zone]
    if len(rest) >= _LEAST or not parts:
        return [*parts, rest]
    return [*parts[:-1], parts[-1] + rest]


def _cut(nodes: Sequence[HolderNode], hashed: Mapping[str, int]) -> list[list[HolderNode]]:
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
