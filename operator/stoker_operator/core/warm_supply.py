"""Where the pods of a queued Workload could run warm, and what of their data is still missing there.

The room of a node is all that it has for pods: who runs there now is the business of the queue, which has not let the
Workload go yet, and later of the scheduling gate.
"""

from collections.abc import Container, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from stoker_operator.core.affinity import may_run
from stoker_operator.core.constraints import allowed_key, constraints_key, data_key, room_key
from stoker_operator.core.pod_demand import PodDemand
from stoker_operator.core.resources import Resources
from stoker_operator.core.views import ClusterView, NodeView, PodView
from stoker_operator.core.warm_nodes import may_warm
from stoker_operator.core.warmth import Warmth, WarmthIndex

_STEP = 64  # nodes that are looked at before others get a turn


@dataclass(frozen=True)
class PodNeed:
    """The pods of one set, ``count`` of them, which are alike, and what they wait for."""

    name: str
    pod: PodView
    demand: PodDemand
    count: int


@dataclass(frozen=True)
class NodeChoice:
    """A node for some of a Workload's pods, and how warm it is for them."""

    node: str
    warmth: Warmth


@dataclass(frozen=True)
class Seats:
    """The nodes for the pods of one PodNeed, the warmest first; ``homeless``: pods that no node has room for."""

    need: PodNeed
    choices: tuple[NodeChoice, ...] = ()
    homeless: int = 0


@dataclass(frozen=True)
class MissingData:
    """What is missing on the nodes that a Workload needs. Bytes; ``eta`` in seconds, None when a node cannot say."""

    nodes: int = 0
    warm: int = 0
    left_bytes: int = 0
    eta: float | None = 0.0

    @property
    def is_warm(self) -> bool:
        """True when nothing is missing."""
        return self.warm == self.nodes

    def within(self, seconds: float) -> bool:
        """Tell whether all will be warm by then."""
        return self.is_warm or (self.eta is not None and self.eta <= seconds)


def missing_data(seats: Iterable[Seats]) -> MissingData:
    """Sum up what is missing; a node that two kinds of pods need counts once for each of them."""
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
    """Finds nodes for Workloads at one moment. What is alike is looked up once, however many Workloads ask."""

    def __init__(self, view: ClusterView, warmth: WarmthIndex) -> None:
        self._view: Final = view
        self._warmth: Final = warmth
        self._feasible: Final[dict[tuple[str, ...], dict[str, NodeView]]] = {}  # by constraints and size of the pods
        self._holders: Final[dict[tuple[str, ...], list[NodeChoice]]] = {}  # of these, by what they want as well

    def seats(self, needs: Sequence[PodNeed]) -> Generator[None, None, tuple[Seats, ...]]:
        """Find nodes for all pods of one Workload together, in slices."""
        free: dict[str, Resources] = {}
        found: list[Seats] = []
        for need in needs:
            keys = constraints_key(need.pod), room_key(need.pod.requests)
            feasible = yield from self._feasible_nodes(need.pod, keys)
            holders = yield from self._ranked(need, feasible, keys)
            choices, homeless = yield from self._take(need, need.count, holders, free)
            if homeless:
                known = {row.node for row in holders}
                more, homeless = yield from self._take(need, homeless, _others(need.demand, feasible, known), free)
                choices += more
            found.append(Seats(need, tuple(choices), homeless))
            yield
        return tuple(found)

    def _take(
        self, need: PodNeed, count: int, rows: Iterable[NodeChoice], free: dict[str, Resources]
    ) -> Generator[None, None, tuple[list[NodeChoice], int]]:
        """Seat so many pods, all of a node at once: a job may have a million of them."""
        requests, chosen = need.pod.requests, list[NodeChoice]()
        for at, row in enumerate(rows):
            left = free.get(row.node, self._view.nodes[row.node].allocatable)
            if taken := left.room_for(requests, count):
                free[row.node], count = left.minus(requests.times(taken)), count - taken
                chosen.append(row)
            if not count:
                break
            if at % _STEP == _STEP - 1:
                yield
        return chosen, count

    def _feasible_nodes(self, pod: PodView, keys: tuple[str, ...]) -> Generator[None, None, Mapping[str, NodeView]]:
        """Find the nodes that a pod may run on, with room for it while they are empty."""
        if keys not in self._feasible:
            found: dict[str, NodeView] = {}
            for at, (name, node) in enumerate(sorted(self._view.nodes.items())):
                if _is_up(node) and node.allocatable.covers(pod.requests) and may_run(pod, node):
                    found[name] = node
                if not at % _STEP:
                    yield
            self._feasible[keys] = found
        return self._feasible[keys]

    def _ranked(
        self, need: PodNeed, feasible: Mapping[str, NodeView], keys: tuple[str, ...]
    ) -> Generator[None, None, list[NodeChoice]]:
        """Return the feasible nodes that hold some of the data or are asked to, the warmest first."""
        demand = need.demand
        keys = (*keys, data_key(demand), allowed_key(demand.datasets))
        if keys not in self._holders:
            names = set[str]().union(*(self._warmth.nodes(dataset) for dataset in demand.datasets))
            rows: list[NodeChoice] = []
            for at, name in enumerate(sorted(names & feasible.keys())):
                warmth = self._warmth.together(demand.datasets, name, demand.versions)
                if warmth.warm or _may_hold(demand, feasible[name]):
                    rows.append(NodeChoice(name, warmth))
                if not at % _STEP:
                    yield
            self._holders[keys] = sorted(rows, key=_rank)
        return self._holders[keys]


def _others(demand: PodDemand, feasible: Mapping[str, NodeView], known: Container[str]) -> Iterator[NodeChoice]:
    """Yield nodes that hold none of it, from a place of the Datasets' own on: else all would begin on the first.

    The place is a share of all nodes, so one node more or less moves it by one at most.
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
    # In tenths: nodes that warm up side by side must not change places at each report.
    return (not row.warmth.warm, not row.warmth.planned, -round(row.warmth.share, 1), row.node)
