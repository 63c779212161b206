"""Whom each node of a Dataset gives files, and which part of it its group asks the source for. Pure.

Up to ``MOST_TOGETHER`` nodes are one group, which asks for all. More are several: each asks for a part, about as much
as it has of the nodes, and its members take all else from each other and from their links, few nodes of other groups
that lead to any by a few steps. So whoever has how many nodes, the source sends one copy, all ask it about equally
often, a node is asked by few, and what changes when one comes or goes is what its district and its links are told.

Nothing of the Dataset is asked for: those on the same nodes have the same groups and links. So one node more or less
is one write for each node that is told, however many Datasets they have in common.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from struct import unpack
from typing import NamedTuple

from stoker_operator.core.districts import EVERYTHING, MOST_TOGETHER, HolderNode, NodeGroup, node_groups
from stoker_operator.core.steps import Steps, finished

# Rings in which a node is linked with those before and behind it: through its zone, and through all. Rings in random
# orders make as good a net as any of so few links, and one node more or less changes two in each.
_ZONE_RINGS, _RINGS = 5, 6
_NUMBER = 8  # bytes
_NODES_AT_ONCE, _GROUPS_AT_ONCE = 1000, 30  # of one step


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


def neighbourhoods(nodes: Sequence[HolderNode]) -> Mapping[str, Neighbourhood]:
    """Return by name what each node is told, where there is anybody else."""
    return finished(divide(nodes))


def divide(nodes: Sequence[HolderNode]) -> Steps[Mapping[str, Neighbourhood]]:
    """Do the same in steps of some milliseconds: a Dataset may be on thousands of nodes."""
    if len(nodes) < 2:
        return {}
    *rings, last = yield from _hashes(nodes)
    links = (yield from _links(nodes, rings)) if len(nodes) > MOST_TOGETHER else {}
    told: dict[str, Neighbourhood] = {}
    hashed = dict(zip((node.name for node in nodes), last, strict=True))
    for count, group in enumerate(node_groups(nodes, hashed)):
        told.update(_told(group, links))
        if count % _GROUPS_AT_ONCE == 0:
            yield
    return told


def _hashes(nodes: Sequence[HolderNode]) -> Steps[list[tuple[int, ...]]]:
    """Return the numbers of all nodes, in their order, for each ring, and then one more."""
    size = _NUMBER * (_RINGS + 1)
    digests: list[bytes] = []
    for first in range(0, len(nodes), _NODES_AT_ONCE):
        some = nodes[first : first + _NODES_AT_ONCE]
        digests += (blake2b(node.name.encode(), digest_size=size).digest() for node in some)
        yield
    numbers = unpack(f">{len(nodes) * (_RINGS + 1)}Q", b"".join(digests))
    return [numbers[number :: _RINGS + 1] for number in range(_RINGS + 1)]


def _links(nodes: Sequence[HolderNode], rings: Sequence[Sequence[int]]) -> Steps[Mapping[str, set[str]]]:
    """Return by name the addresses of those next to a node in each ring; ``rings``: the nodes' numbers in each."""
    places: defaultdict[str, list[int]] = defaultdict(list)  # in ``nodes``, by zone
    for place, node in enumerate(nodes):
        places[node.zone].append(place)
    addresses, links = [node.address for node in nodes], [set[str]() for _ in nodes]
    for number, column in enumerate(rings):
        for members in places.values() if number < _ZONE_RINGS else [range(len(nodes))]:
            ring = sorted(members, key=column.__getitem__)
            for one, other in zip(ring, [*ring[1:], ring[0]], strict=True):
                links[one].add(addresses[other])
                links[other].add(addresses[one])
        yield
    return {node.name: found for node, found in zip(nodes, links, strict=True)}


def _told(group: NodeGroup, links: Mapping[str, set[str]]) -> Iterator[tuple[str, Neighbourhood]]:
    addresses = tuple(node.address for node in group.members)
    for position, node in enumerate(group.members):
        others = tuple(sorted(links.get(node.name, set()).difference(addresses)))
        yield node.name, Neighbourhood(addresses, position, others, group.first, group.width)
