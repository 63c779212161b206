"""The zone and rack of nodes, from their labels, and the distance between peers. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from stoker_operator.core.peers.districts import HolderNode
from stoker_operator.core.peers.peer_groups import PeerGroup, peer_groups

_ZONE = "topology.kubernetes.io/zone"
_MOST_VALUE = 63  # characters of a label's value
_MOST_SETS = 8  # remembered sets of nodes: most Datasets on many nodes share the same sets
_told: Final[dict[tuple[HolderNode, ...], Mapping[str, PeerGroup]]] = {}


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
    found = _told.get(key)
    if found is None:
        found = with_distances(peer_groups(nodes), nodes)
        while len(_told) >= _MOST_SETS:
            del _told[next(iter(_told))]
        _told[key] = found
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
