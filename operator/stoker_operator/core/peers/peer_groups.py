"""Groups of peers: the nodes that exchange files, and their distances by zone and rack. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from struct import unpack
from typing import Final, NamedTuple

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


_ZONE = "topology.kubernetes.io/zone"
_MOST_VALUE = 63  # characters of a label's value
_MOST_SETS = 8  # remembered sets of nodes: most Datasets on many nodes share the same sets
_remembered: Final[dict[tuple[HolderNode, ...], Mapping[str, PeerGroup]]] = {}


class Distance(IntEnum):
    """The distance between two nodes, nearest first, as nodes receive it."""

    SAME_RACK = 0
    SAME_ZONE = 1
    ELSEWHERE = 2


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """The administrator's settings for peers. ``on``: nodes share files, unless a Dataset forbids it.

    ``rack_label``: the label with a node's rack; empty: racks are unknown.
    """

    on: bool = True
    rack_label: str = ""


class NodeSite(NamedTuple):
    """The location of a node. Empty fields are unknown."""

    zone: str = ""
    rack: str = ""


def site_by(labels: Mapping[str, str], rack_label: str) -> NodeSite:
    """Read a node's location from its labels."""
    rack = labels.get(rack_label, "") if rack_label else ""
    return NodeSite(labels.get(_ZONE, "")[:_MOST_VALUE], rack[:_MOST_VALUE])


def distance(one: NodeSite, other: NodeSite) -> Distance:
    """Return the distance of two nodes. Racks of two zones may share a name. Without zones, all nodes are in one."""
    if one.zone != other.zone:
        return Distance.ELSEWHERE
    return Distance.SAME_RACK if one.rack and one.rack == other.rack else Distance.SAME_ZONE


def near_peer_groups(nodes: Sequence[HolderNode]) -> Mapping[str, PeerGroup]:
    """Return the peers of each node by name, with distances. Recent results are reused."""
    key = tuple(nodes)
    found = _remembered.get(key)
    if found is None:
        found = with_distances(peer_groups(nodes), nodes)
        while len(_remembered) >= _MOST_SETS:
            del _remembered[next(iter(_remembered))]
        _remembered[key] = found
    return found


def with_distances(told: Mapping[str, PeerGroup], nodes: Sequence[HolderNode]) -> Mapping[str, PeerGroup]:
    """Add to each node's group the distances of its peers, unless all nodes are equally far."""
    sites = {node.address: NodeSite(node.zone, node.rack) for node in nodes}
    if len(set(sites.values())) <= 1:
        return told
    own = {node.name: NodeSite(node.zone, node.rack) for node in nodes}
    return {
        name: group._replace(distances=_distances(own[name], (sites[one] for one in (*group.peers, *group.links))))
        for name, group in told.items()
    }


def _distances(own: NodeSite, others: Iterable[NodeSite]) -> tuple[int, ...]:
    found = tuple(int(distance(own, other)) for other in others)
    return found if len(set(found)) > 1 else ()
