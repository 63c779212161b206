"""Find nodes on which a queued Workload could run with warm data, and the data that they lack.

A node counts with its whole capacity. The queue, and later the scheduling gate, account for running pods.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from stoker_operator.core.fitting.affinity import may_run
from stoker_operator.core.fitting.feasible_nodes import allowed_key, constraints_key, data_key, room_key
from stoker_operator.core.fitting.pod_demand import PodDemand
from stoker_operator.core.fitting.warmth import Warmth, WarmthIndex
from stoker_operator.core.placement.node_rules import may_warm
from stoker_operator.core.views.cluster import ClusterView, NodeView, PodView
from stoker_operator.core.views.resources import Resources


@dataclass(frozen=True)
class PodNeed:
    """The pods of one set, ``count`` identical ones, and the data that they wait for."""

    name: str
    pod: PodView
    demand: PodDemand
    count: int


@dataclass(frozen=True)
class NodeChoice:
    """A node for some of a Workload's pods, and its warmth for them."""

    node: str
    warmth: Warmth


@dataclass(frozen=True)
class Seats:
    """The nodes for the pods of one PodNeed, warmest first. ``homeless``: pods without room on any node."""

    need: PodNeed
    choices: tuple[NodeChoice, ...] = ()
    homeless: int = 0


@dataclass(frozen=True)
class MissingData:
    """Missing data on the nodes that a Workload needs, in bytes. ``eta``: seconds, None if a node has no estimate."""

    nodes: int = 0
    warm: int = 0
    left_bytes: int = 0
    eta: float | None = 0.0

    @property
    def is_warm(self) -> bool:
        """True if no data is missing."""
        return self.warm == self.nodes

    def within(self, seconds: float) -> bool:
        """Return True if all data will be warm within these seconds."""
        return self.is_warm or (self.eta is not None and self.eta <= seconds)


def missing_data(seats: Iterable[Seats]) -> MissingData:
    """Sum up the missing data. A node that two pod sets need counts once for each."""
    choices = [choice for one in seats for choice in one.choices]
    cold = [choice.warmth for choice in choices if not choice.warmth.warm]
    etas = [one.eta for one in cold]
    return MissingData(
        nodes=len(choices),
        warm=len(choices) - len(cold),
        left_bytes=sum(max(0, one.total_bytes - one.warm_bytes) for one in cold),
        eta=None if None in etas else max((eta for eta in etas if eta is not None), default=0.0),
    )


class WarmSupply:
    """Finds nodes for Workloads at one moment. Equal lookups of several Workloads run once."""

    def __init__(self, view: ClusterView, warmth: WarmthIndex) -> None:
        self._view: Final = view
        self._warmth: Final = warmth
        self._feasible: Final[dict[tuple[str, ...], dict[str, NodeView]]] = {}  # by constraints and size of the pods
        self._holders: Final[dict[tuple[str, ...], list[NodeChoice]]] = {}  # by constraints, size and wanted data

    def seats(self, needs: Sequence[PodNeed]) -> tuple[Seats, ...]:
        """Find nodes for all pods of one Workload together."""
        free: dict[str, Resources] = {}
        found: list[Seats] = []
        for need in needs:
            keys = constraints_key(need.pod), room_key(need.pod.requests)
            feasible = self._feasible_nodes(need.pod, keys)
            holders = self._ranked(need, feasible, keys)
            choices, homeless = self._take(need, need.count, holders, free)
            if homeless:
                known = {row.node for row in holders}
                more, homeless = self._take(need, homeless, _others(need.demand, feasible, known), free)
                choices += more
            found.append(Seats(need, tuple(choices), homeless))
        return tuple(found)

    def _take(
        self, need: PodNeed, count: int, rows: Iterable[NodeChoice], free: dict[str, Resources]
    ) -> tuple[list[NodeChoice], int]:
        """Place ``count`` pods, all pods of a node at once, because a job may have a million."""
        requests, chosen = need.pod.requests, list[NodeChoice]()
        for row in rows:
            left = free.get(row.node, self._view.nodes[row.node].allocatable)
            if taken := left.room_for(requests, count):
                free[row.node], count = left.minus(requests.times(taken)), count - taken
                chosen.append(row)
            if not count:
                break
        return chosen, count

    def _feasible_nodes(self, pod: PodView, keys: tuple[str, ...]) -> Mapping[str, NodeView]:
        """Find the nodes on which a pod may run, and on which it fits if they are empty."""
        if keys not in self._feasible:
            found: dict[str, NodeView] = {}
            for name, node in sorted(self._view.nodes.items()):
                if _is_up(node) and node.allocatable.covers(pod.requests) and may_run(pod, node):
                    found[name] = node
            self._feasible[keys] = found
        return self._feasible[keys]

    def _ranked(self, need: PodNeed, feasible: Mapping[str, NodeView], keys: tuple[str, ...]) -> list[NodeChoice]:
        """Return the feasible nodes that hold or should hold some of the data, warmest first."""
        demand = need.demand
        keys = (*keys, data_key(demand), allowed_key(demand.datasets))
        if keys not in self._holders:
            names = set[str]().union(*(self._warmth.nodes(dataset) for dataset in demand.datasets))
            rows: list[NodeChoice] = []
            for name in sorted(names & feasible.keys()):
                warmth = self._warmth.together(demand.datasets, name, demand.versions)
                if warmth.warm or _may_hold(demand, feasible[name]):
                    rows.append(NodeChoice(name, warmth))
            self._holders[keys] = sorted(rows, key=_rank)
        return self._holders[keys]


def _others(demand: PodDemand, feasible: Mapping[str, NodeView], known: Container[str]) -> Iterator[NodeChoice]:
    """Yield nodes without the data, from a start that depends on the Datasets.

    Otherwise all Workloads would use the same first nodes. The start is a fraction of the list, so one node more or
    less moves it by at most one.
    """
    names = list(feasible)
    start = crc32(demand.names.encode()) * len(names) >> 32
    nothing = Warmth(total_bytes=sum(dataset.status.bytes or 0 for dataset in demand.datasets))
    for name in (*names[start:], *names[:start]):
        if name not in known and _may_hold(demand, feasible[name]):
            yield NodeChoice(name, nothing)


def _may_hold(demand: PodDemand, node: NodeView) -> bool:
    return all(may_warm(dataset, node) for dataset in demand.datasets)


def _is_up(node: NodeView) -> bool:
    return node.takes_new and node.ready and node.sidecar_ready


def _rank(row: NodeChoice) -> tuple[bool, bool, float, str]:
    # Rounded to tenths, so that nodes that warm up in parallel do not swap ranks at each report.
    return (not row.warmth.warm, not row.warmth.planned, -round(row.warmth.share, 1), row.node)
