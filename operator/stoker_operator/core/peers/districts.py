"""Divide nodes into groups and assign each group a part of the data. Parts are even, and few change. Pure.

The bits of their hashes split nodes into halves, while both halves have about the expected size. Each half of the nodes
gets half of the data, independent of the other half. A part that is not split further is a district. It has groups of
nearby nodes, which divide its part by their sizes. So a node that joins or leaves changes only its district, and all
nodes have similar parts.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

EVERYTHING = 2**32
MOST_TOGETHER = 16
# Each of several groups has at least this many nodes. A group ends before it is full if the hash of its last node says
# so. Otherwise a new node would shift all later groups.
_LEAST, _CLOSES = 8, 4
# Minimum nodes of a district for each zone, so that most groups are within one zone; and the most zones to count.
_DISTRICT, _MOST_ZONES = 16, 4
# Each node's share is between three quarters and four thirds of an even share.
_LESS, _MORE = 3, 4
_BITS = 64


class HolderNode(NamedTuple):
    """A node that should have a Dataset. ``address``: host:port for requests of peers.

    ``zone``, ``rack``: empty if unknown.
    """

    name: str
    address: str
    zone: str = ""
    rack: str = ""


class NodeGroup(NamedTuple):
    """Ordered nodes with the part of EVERYTHING that begins at ``first``."""

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
    """Yield the groups of all nodes. ``hashed``: a 64-bit number for each name."""
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
    """Return True if a half has enough nodes, and about as many as its part of the data requires."""
    zones = min(_MOST_ZONES, len({node.zone for node in cell.nodes}))
    scaled = len(half.nodes) << half.depth
    return len(half.nodes) >= _DISTRICT * zones and _LESS * total <= _MORE * scaled and _LESS * scaled <= _MORE * total


def _in_district(cell: _Cell, hashed: Mapping[str, int]) -> Iterator[NodeGroup]:
    """Divide the cell's part among its groups by their number of nodes."""
    before, count = 0, len(cell.nodes)
    for members in (group for zone in _zones(cell.nodes) for group in _cut(zone, hashed)):
        begin, end = (cell.first + cell.width * at // count for at in (before, before + len(members)))
        yield NodeGroup(members, begin, end - begin)
        before += len(members)


def _zones(nodes: Sequence[HolderNode]) -> list[list[HolderNode]]:
    """Split the nodes by zone. Zones that are too small for a group are merged with each other or with another zone."""
    by_zone: defaultdict[str, list[HolderNode]] = defaultdict(list)
    for node in nodes:
        by_zone[node.zone].append(node)
    parts = [zone for zone in by_zone.values() if len(zone) >= _LEAST]
    rest = [node for zone in by_zone.values() if len(zone) < _LEAST for node in zone]
    if len(rest) >= _LEAST or not parts:
        return [*parts, rest]
    return [*parts[:-1], parts[-1] + rest]


def _cut(nodes: Sequence[HolderNode], hashed: Mapping[str, int]) -> list[list[HolderNode]]:
    """Split nodes at hashes, so that a node that joins or leaves moves few borders.

    With fixed counts it would move all.
    """
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
