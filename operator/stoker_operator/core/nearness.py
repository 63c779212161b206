"""In which zone and rack nodes stand, by their labels, and so how far from each other neighbours are. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from stoker_operator.core.districts import HolderNode
from stoker_operator.core.neighbourhoods import Neighbourhood, divide
from stoker_operator.core.steps import Steps

_ZONE = "topology.kubernetes.io/zone"
_MOST_VALUE = 63  # characters of a label's value
_MOST_SETS = 8  # of nodes that are remembered: most Datasets of many nodes are on the same ones
_told: Final[dict[tuple[HolderNode, ...], Mapping[str, Neighbourhood]]] = {}


class Distance(IntEnum):
    """How far one node is from another: what nodes are told, the nearest first."""

    SAME_RACK = 0
    SAME_ZONE = 1
    ELSEWHERE = 2


@dataclass(frozen=True, slots=True)
class ClusterNeighbours:
    """What the administrator says of neighbours. ``on``: nodes give each other files, where nothing forbids it.

    ``rack_label``: the label of nodes that tells their rack; empty: racks are not known.
    """

    on: bool = True
    rack_label: str = ""


class NodeSite(NamedTuple):
    """Where a node stands; empty where that is not known."""

    zone: str = ""
    rack: str = ""


def site_by(labels: Mapping[str, str], rack_label: str) -> NodeSite:
    """Read where a node stands from its labels."""
    rack = labels.get(rack_label, "") if rack_label else ""
    return NodeSite(labels.get(_ZONE, "")[:_MOST_VALUE], rack[:_MOST_VALUE])


def distance(one: NodeSite, other: NodeSite) -> Distance:
    """Tell how far apart two are. Racks of two zones may have one name; where no zones are known there is one."""
    if one.zone != other.zone:
        return Distance.ELSEWHERE
    return Distance.SAME_RACK if one.rack and one.rack == other.rack else Distance.SAME_ZONE


def near_neighbourhoods(nodes: Sequence[HolderNode]) -> Steps[Mapping[str, Neighbourhood]]:
    """Return by name what each node is told, distances included; for the same nodes the same objects, for a while."""
    key = tuple(nodes)
    found = _told.get(key)
    if found is None:
        found = with_distances((yield from divide(nodes)), nodes)
        while len(_told) >= _MOST_SETS:
            del _told[next(iter(_told))]
        _told[key] = found
    return found


def with_distances(told: Mapping[str, Neighbourhood], nodes: Sequence[HolderNode]) -> Mapping[str, Neighbourhood]:
    """Add to what each of ``nodes`` is told how far away those are whom it asks, unless all of them are equally far."""
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
