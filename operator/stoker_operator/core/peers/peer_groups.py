"""Choose the peers of each node of a Dataset, and the part of the data that its group fetches. Pure.

Up to ``MOST_TOGETHER`` nodes form one group, which fetches everything. More nodes form several groups. Each fetches a
part in proportion to its nodes. Its members get the rest from each other and from links, which are a few nodes of other
groups. Links reach every node in a few steps. So the source sends one copy, all nodes send it about equally many
requests, and few peers ask a node. A node that joins or leaves changes only its district and its links.

The result does not depend on the Dataset. Datasets on the same nodes have the same groups and links. So one node more
or less costs one write for each affected node, for any number of shared Datasets.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from struct import unpack
from typing import NamedTuple

from stoker_operator.core.peers.districts import EVERYTHING, MOST_TOGETHER, HolderNode, NodeGroup, node_groups

# Rings in which a node links to the nodes before and after it: rings of its zone, and rings of all nodes. Rings in
# random order make a network that is as good as any with so few links. One node more or less changes two links in each.
_ZONE_RINGS, _RINGS = 5, 6
_NUMBER = 8  # bytes


class PeerGroup(NamedTuple):
    """The peers of a node by host:port. ``members``: its group. ``position``: its own index among them.

    All nodes of a group share one ``members`` object, because a large cluster has a group for each node and Dataset.
    ``links``: nodes of other groups. ``first`` and ``width``: the part of EVERYTHING that the group fetches.
    ``distances``: of ``peers``, then ``links``; empty: all equal. ``names``: of the same nodes.
    """

    members: tuple[str, ...]
    position: int
    links: tuple[str, ...] = ()
    first: int = 0
    width: int = EVERYTHING
    distances: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def peers(self) -> tuple[str, ...]:
        """The members other than the node itself."""
        return self.members[: self.position] + self.members[self.position + 1 :]


def peer_groups(nodes: Sequence[HolderNode]) -> Mapping[str, PeerGroup]:
    """Return the peers of each node by name. Return {} for a single node."""
    if len(nodes) < 2:
        return {}
    *rings, last = _hashes(nodes)
    links = _links(nodes, rings) if len(nodes) > MOST_TOGETHER else {}
    told: dict[str, PeerGroup] = {}
    names = {node.address: node.name for node in nodes}
    hashed = dict(zip((node.name for node in nodes), last, strict=True))
    for group in node_groups(nodes, hashed):
        told.update(_told(group, links, names))
    return told


def _hashes(nodes: Sequence[HolderNode]) -> list[tuple[int, ...]]:
    """Return the numbers of all nodes, in order, for each ring, and then one more."""
    size = _NUMBER * (_RINGS + 1)
    digests = [blake2b(node.name.encode(), digest_size=size).digest() for node in nodes]
    numbers = unpack(f">{len(nodes) * (_RINGS + 1)}Q", b"".join(digests))
    return [numbers[number :: _RINGS + 1] for number in range(_RINGS + 1)]


def _links(nodes: Sequence[HolderNode], rings: Sequence[Sequence[int]]) -> Mapping[str, set[str]]:
    """Return the addresses of the nodes next to each node in the rings, by name.

    ``rings``: the nodes' numbers in each ring.
    """
    places: defaultdict[str, list[int]] = defaultdict(list)  # index in ``nodes``, by zone
    for place, node in enumerate(nodes):
        places[node.zone].append(place)
    addresses, links = [node.address for node in nodes], [set[str]() for _ in nodes]
    for number, column in enumerate(rings):
        for members in places.values() if number < _ZONE_RINGS else [range(len(nodes))]:
            ring = sorted(members, key=column.__getitem__)
            for one, other in zip(ring, [*ring[1:], ring[0]], strict=True):
                links[one].add(addresses[other])
                links[other].add(addresses[one])
    return {node.name: found for node, found in zip(nodes, links, strict=True)}


def _told(group: NodeGroup, links: Mapping[str, set[str]], names: Mapping[str, str]) -> Iterator[tuple[str, PeerGroup]]:
    addresses = tuple(node.address for node in group.members)
    for position, node in enumerate(group.members):
        others = tuple(sorted(links.get(node.name, set()).difference(addresses)))
        found = PeerGroup(addresses, position, others, group.first, group.width)
        yield node.name, found._replace(names=tuple(names[one] for one in (*found.peers, *others)))
