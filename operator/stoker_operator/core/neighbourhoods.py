"""Whom each node of a Dataset gives files, and which part of it its group asks the source for. Pure.

Up to ``MOST_TOGETHER`` nodes are one group, which asks for all. More are several: each asks for a part, about as much
as it has of the nodes, and its members take all else from each other and from their links, few nodes of other groups
that lead to any by a few steps. So whoever has how many nodes, the source sends one copy, all ask it about equally
often, a node is asked by few, and what changes when one comes or goes is what its district and its links are told.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from stoker_operator.core.districts import EVERYTHING, MOST_TOGETHER, HolderNode, NodeGroup, node_groups

# Rings in which a node is linked with those before and behind it: through its zone, and through all. Rings in random
# orders make as good a net as any of so few links, and one node more or less changes two in each.
_ZONE_RINGS, _RINGS = 5, 6
_HASH = 8  # bytes


class Neighbourhood(NamedTuple):
    """Whom a node asks, and who may ask it, by host:port; ``position``: its own among ``members``, its group's nodes.

    The members are one object for all of a group: a large cluster has a neighbourhood for each node and Dataset.
    ``links``: nodes of other groups. ``first`` and ``width``: the part of EVERYTHING that the group fetches.
    ``distances``: how far away ``peers`` and then ``links`` are; empty: all are alike.
    """

    members: tuple[str, ...]
    position: int
    links: tuple[str, ...] = ()
    first: int = 0
    width: int = EVERYTHING
    distances: tuple[int, ...] = ()

    @property
    def peers(self) -> tuple[str, ...]:
        """The other members."""
        return self.members[: self.position] + self.members[self.position + 1 :]


def neighbourhoods(salt: str, nodes: Sequence[HolderNode]) -> Mapping[str, Neighbourhood]:
    """Return by name what each node is told, where there is anybody else.

    ``salt``: of the Dataset: another one has other groups, so that no link of a network has all of them.
    """
    if len(nodes) < 2:
        return {}
    hashes = {node.name: _hashes(salt, node.name) for node in nodes}
    links = _links(nodes, hashes) if len(nodes) > MOST_TOGETHER else {}
    groups = node_groups(nodes, {name: numbers[_RINGS] for name, numbers in hashes.items()})
    return {name: told for group in groups for name, told in _told(group, links)}


def _hashes(salt: str, name: str) -> tuple[int, ...]:
    """Return a number for each ring, and one more."""
    found = blake2b(f"{salt}/{name}".encode(), digest_size=_HASH * (_RINGS + 1)).digest()
    return tuple(int.from_bytes(found[at : at + _HASH]) for at in range(0, len(found), _HASH))


def _links(nodes: Sequence[HolderNode], hashes: Mapping[str, Sequence[int]]) -> Mapping[str, set[str]]:
    """Return by name the addresses of those next to a node in each ring."""
    zones: defaultdict[str, list[HolderNode]] = defaultdict(list)
    for node in nodes:
        zones[node.zone].append(node)
    links: defaultdict[str, set[str]] = defaultdict(set)
    for number in range(_RINGS):
        for members in zones.values() if number < _ZONE_RINGS else [nodes]:
            ring = sorted(members, key=lambda node: hashes[node.name][number])
            for one, other in zip(ring, [*ring[1:], ring[0]], strict=True):
                links[one.name].add(other.address)
                links[other.name].add(one.address)
    return links


def _told(group: NodeGroup, links: Mapping[str, set[str]]) -> Iterator[tuple[str, Neighbourhood]]:
    addresses = tuple(node.address for node in group.members)
    for position, node in enumerate(group.members):
        others = tuple(sorted(links.get(node.name, set()).difference(addresses)))
        yield node.name, Neighbourhood(addresses, position, others, group.first, group.width)
