"""Where the pods of a queued Workload could run warm, and what of their data is still missing there.

The room of a node is all that it has for pods: who runs there now is the business of the queue, which has not let the
Workload go yet, and later of the scheduling gate.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from stoker_operator.core.affinity import may_run
from stoker_operator.core.constraints import allowed_key, constraints_key, data_key, room_key
from stoker_operator.core.pod_demand import PodDemand
from stoker_operator.core.resources import Resources
from stoker_operator.core.views import ClusterView, NodeView, PodView
from stoker_operator.core.warm_nodes import may_warm
from stoker_operator.core.warmth import NOTHING, Warmth, WarmthIndex

_STEP = 64  # nodes that are looked at before others get a turn


@dataclass(frozen=True)
class PodNeed:
    """Pods that are alike, ``count`` of them, and what they wait for."""

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


@dataclass
class _Ranking:
    """The nodes for pods that are alike: those that hold some of the data, and all others where these are too few."""

    holders: list[NodeChoice]
    fresh: list[NodeChoice] | None = field(default=None)


class WarmSupply:
    """Finds nodes for Workloads at one moment. What is alike is looked up once, however many Workloads ask."""

    def __init__(self, view: ClusterView, warmth: WarmthIndex) -> None:
        self._view: Final = view
        self._warmth: Final = warmth
        self._rankings: Final[dict[tuple[str, ...], _Ranking]] = {}

    def seats(self, needs: Sequence[PodNeed]) -> Generator[None, None, tuple[Seats, ...]]:
        """Find nodes for all pods of one Workload together, in slices."""
        free: dict[str, Resources] = {}
        found: list[Seats] = []
        for need in needs:
            ranking = yield from self._ranking(need)
            choices, homeless = self._take(need, need.count, ranking.holders, free)
            if homeless:
                ranking.fresh = (yield from self._fresh(need)) if ranking.fresh is None else ranking.fresh
                more, homeless = self._take(need, homeless, ranking.fresh, free)
                choices += more
            found.append(Seats(need, tuple(choices), homeless))
            yield
        return tuple(found)

    def _take(
        self, need: PodNeed, count: int, rows: Iterable[NodeChoice], free: dict[str, Resources]
    ) -> tuple[list[NodeChoice], int]:
        requests, chosen = need.pod.requests, []
        for row in rows:
            if not count:
                break
            left = free.get(row.node, self._view.nodes[row.node].allocatable)
            before = count
            while count and left.covers(requests):
                left, count = left.minus(requests), count - 1
            if count < before:
                free[row.node] = left
                chosen.append(row)
        return chosen, count

    def _ranking(self, need: PodNeed) -> Generator[None, None, _Ranking]:
        pod, demand = need.pod, need.demand
        keys = (constraints_key(pod), room_key(pod.requests), data_key(demand), allowed_key(demand.datasets))
        if keys not in self._rankings:
            names = set[str]().union(*(self._warmth.nodes(dataset) for dataset in demand.datasets))
            rows: list[NodeChoice] = []
            for at, name in enumerate(sorted(names)):
                warmth = self._warmth.together(demand.datasets, name, demand.versions)
                if self._may_take(need, name, warmth):
                    rows.append(NodeChoice(name, warmth))
                if not at % _STEP:
                    yield
            self._rankings[keys] = _Ranking(sorted(rows, key=_rank))
        return self._rankings[keys]

    def _fresh(self, need: PodNeed) -> Generator[None, None, list[NodeChoice]]:
        """Find the nodes that hold none of it, in an order of the Datasets' own: else all would begin on the first."""
        demand = need.demand
        holders = set[str]().union(*(self._warmth.nodes(dataset) for dataset in demand.datasets))
        rows: list[tuple[int, str]] = []
        for at, name in enumerate(self._view.nodes):
            if name not in holders and self._may_take(need, name, NOTHING):
                rows.append((crc32(f"{demand.names} {name}".encode()), name))
            if not at % _STEP:
                yield
        total = sum(dataset.status.bytes or 0 for dataset in demand.datasets)
        return [NodeChoice(name, Warmth(total_bytes=total)) for _, name in sorted(rows)]

    def _may_take(self, need: PodNeed, name: str, warmth: Warmth) -> bool:
        node = self._view.nodes.get(name)
        if node is None or not _is_up(node) or not node.allocatable.covers(need.pod.requests):
            return False
        allowed = warmth.warm or all(may_warm(dataset, node) for dataset in need.demand.datasets)
        return allowed and may_run(need.pod, node)


def _is_up(node: NodeView) -> bool:
    return node.schedulable and node.ready and node.sidecar_ready


def _rank(row: NodeChoice) -> tuple[bool, bool, float, str]:
    # In tenths: nodes that warm up side by side must not change places at each report.
    return (not row.warmth.warm, not row.warmth.planned, -round(row.warmth.share, 1), row.node)
