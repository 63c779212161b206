"""Which held pods may go, and where to; why the others wait; and which nodes should warm up for those.

A pod is released to warm nodes when one of them has room for it, after what already released pods will take. They are
required where the pod says so, or where there is warm room to spare; else they are preferred, and the pod is not
trapped when something that is not looked at here keeps it off them. Gangs go whole or not at all.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from stoker_api.dataset import Dataset, SchedulingMode
from stoker_api.names import Reason
from stoker_api.nodecache import NodeCache
from stoker_api.times import format_time
from stoker_operator.core import explain
from stoker_operator.core.gate_index import GateIndex, Slices
from stoker_operator.core.gate_pods import GatePods
from stoker_operator.core.held_groups import Group
from stoker_operator.core.node_bits import first
from stoker_operator.core.node_rules import NodeRule
from stoker_operator.core.places import Place
from stoker_operator.core.pod_demand import PodDemand, Unmet, read_demand
from stoker_operator.core.release_decisions import SHOWN_AFTER, Hold, Outcome, Release, WantedNodes
from stoker_operator.core.releases import Releases, never_held
from stoker_operator.core.turn_order import TurnOrder
from stoker_operator.core.views import ClusterView, InvalidDataset, NodeView, PodView
from stoker_operator.core.wanted_nodes import find_wanted

_AGAIN = 30.0  # seconds until what could not be worked out is looked at again
Pairs = Sequence[tuple[PodView, PodDemand]]
Decisions = Generator[None, None, Sequence[Hold | Release]]


class Gating:
    """Decides on held pods, oldest first, pass by pass: each pass on those that a change since the last may concern.

    What is told between two passes (``put_...``) is state; ``decide`` gives what follows from it, in slices, and what
    it gives is the same as if all held pods were decided anew. Times in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.index: Final = GateIndex()
        self.pods: Final = GatePods(self.index)
        self._datasets: Final[dict[str, Dataset]] = {}
        self._invalid: Final[dict[str, InvalidDataset]] = {}
        self._view: Final = ClusterView(datasets=self._datasets, invalid_datasets=self._invalid)
        self._releases: Final = Releases(self.index, self._view)
        self._now = 0.0
        self._wanted = WantedNodes()

    def put_dataset(self, key: str, dataset: Dataset | InvalidDataset | None) -> None:
        """Take over a Dataset as its class lets it be, None when it is gone; of its progress nothing is looked at."""
        old = self._datasets.pop(key, None), self._invalid.pop(key, None)
        if isinstance(dataset, Dataset):
            self._datasets[key] = dataset
        elif dataset is not None:
            self._invalid[key] = dataset
        if _gist(*old) != _gist(self._datasets.get(key), self._invalid.get(key)):
            self.pods.dataset_changed(key)

    def put_node(self, name: str, node: NodeView | None, now: float) -> None:
        """Take over a node, None when it is gone."""
        self.index.put_node(name, node, now)

    def put_cache(self, name: str, cache: NodeCache | None) -> None:
        """Take over what a node says of its data, None when it says nothing any more."""
        self.index.put_cache(name, cache)

    def put_pod(self, key: str, pod: PodView | None) -> None:
        """Take over a pod, None when it is gone."""
        self.pods.put(key, pod)

    def decide(
        self, now: float, bookings: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> Generator[None, None, Outcome]:
        """Make a pass. ``bookings``: the nodes to one of which a released pod is on its way, by the pod's UID."""
        self._now = now
        yield from self.index.refresh(now)
        yield from self.index.rebook(self.pods.on_their_way(bookings))
        turns = TurnOrder(self.index, self.pods, now)
        releases: list[Release] = []
        while (key := turns.next()) is not None:
            yield
            decisions = yield from self._decided(key)
            releases += self.pods.settle(key, decisions, now)
            turns.had_turn()
        if self.index.is_changed:
            self._wanted = yield from find_wanted(self.index)
            self.index.changes.any = False
        self.index.changes.tick += 1
        holds, left = self.pods.news()
        times = frozenset({*self.pods.times(now), *self._wanted.silences})
        return Outcome(holds, tuple(releases), left, self._wanted, times)

    def _decided(self, key: str) -> Decisions:
        """Return the decisions on a group, which stays held when they cannot be made: the others' turn must come."""
        group = self.pods.groups.get(key)
        if group is None:
            return ()
        try:
            return (yield from self._group(group))
        except Exception as error:  # noqa: BLE001 -- the boundary of a group
            for pod in group.held:
                self.pods.unseat(pod)
            sentence = f"what it waits for cannot be worked out, please report this: {error!r}"
            why, again = explain.unmet(Reason.INTERNAL_ERROR, sentence), self._now + _AGAIN
            return [Hold(pod, why, again) for pod in group.pods]

    def _group(self, group: Group) -> Decisions:
        pods = group.pods
        demands = {pod.key: read_demand(pod, self._view, self._now) for pod in pods}
        pairs = [(pod, demand) for pod in pods if isinstance(demand := demands[pod.key], PodDemand)]
        yield from self._seat(group, demands)
        unmet = next((demand for demand in demands.values() if isinstance(demand, Unmet)), None)
        if unmet is not None:
            return [Hold(pod, explain.unmet(unmet.reason, unmet.sentence)) for pod in pods]
        if group.other_gates:
            why = explain.other_gates(group.other_gates)
            return [Hold(pod, why, held_since=self._mark(pod)) for pod in pods]
        if group.present < group.size:
            missing = f"all of the gang existed ({group.present} of {group.size})"
            return self._overdue(pairs, missing) or [self._incomplete(group, *pair) for pair in pairs]
        decided = (yield from self._to_warm_nodes(pairs)) or self._overdue(pairs) or self._shown(pairs)
        return decided or [self._hold(*pair) for pair in pairs]

    def _seat(self, group: Group, demands: Mapping[str, PodDemand | Unmet]) -> Slices:
        """Give each pod its place; for one that has none, since its constraints make no sense, the error is kept."""
        turn = group.order
        for pod in group.pods:
            demand = demands[pod.key]
            if isinstance(demand, Unmet):
                self.pods.unseat(pod.key)
                continue
            found: Place | Exception
            try:
                found = yield from self.index.place(pod, demand, self._now)
            except Exception as error:  # noqa: BLE001 -- the boundary of a pod
                found = error
            self.pods.seat(pod, found, turn)
            yield

    def _mark(self, pod: PodView) -> str | None:
        """Return what to write about since when only Stoker holds a pod; nothing for one that had no other gates."""
        if pod.other_gates:
            return "" if pod.held_since is None else None
        return format_time(self._now) if pod.held_since == 0.0 else None

    def _incomplete(self, group: Group, pod: PodView, demand: PodDemand) -> Hold:
        why = explain.gang(group.size, demand, self._now)
        return Hold(pod, why, demand.deadline, self._mark(pod))

    def _to_warm_nodes(self, pairs: Pairs) -> Generator[None, None, Sequence[Release]]:
        """Return all of them, or () with the books as they were."""
        booked: dict[str, str] = {}
        for pod, demand in pairs:
            if demand.mode is SchedulingMode.NONE:
                continue
            place = self.pods.place(pod)
            if not (found := place.open):
                for taken, _ in pairs:
                    if taken.key in booked:
                        self.index.give_back(taken.requests, booked[taken.key])
                return ()
            booked[pod.key] = self.index.numbers.names[first(found)]
            self.index.take(pod.requests, booked[pod.key])
            yield
        # After all of them are booked: what is to spare is what none of the gang takes.
        releases: list[Release] = []
        for pod, demand in pairs:
            node = booked.get(pod.key)
            warm = never_held(pod, demand) if node is None else self._warm(pod, demand, node)
            releases.append(warm)
            yield
        return releases

    def _warm(self, pod: PodView, demand: PodDemand, node: str) -> Release:
        return self._releases.warm(pod, demand, self.pods.place(pod), node)

    def _overdue(self, pairs: Pairs, missing: str = "") -> Sequence[Release]:
        """Return all of them, when one has waited as long as it may: none is held for longer than its own maxWait."""
        if not _may_go_cold(pairs) or not any(self._now >= demand.deadline for _, demand in pairs):
            return ()
        return [self._releases.cold(pod, demand, self.pods.place(pod), missing) for pod, demand in pairs]

    def _shown(self, pairs: Pairs) -> Sequence[Release]:
        """Return all of them, when a node for one has to be made first, which an autoscaler does for no held pod."""
        late = [pod for pod, demand in pairs if self._now >= demand.since + SHOWN_AFTER]
        if not _may_go_cold(pairs) or all(self.pods.place(pod).possible for pod in late):
            return ()
        releases = (self._releases.cold(pod, demand, self.pods.place(pod)) for pod, demand in pairs)
        return [
            replace(one, reason=Reason.RELEASED, sentence=explain.shown_to_autoscalers(demand, one.pod.requests))
            for one, (_, demand) in zip(releases, pairs, strict=True)
        ]

    def _hold(self, pod: PodView, demand: PodDemand) -> Hold:
        place = self.pods.place(pod)
        if not place.possible:
            shown_at = demand.since + SHOWN_AFTER
            why = explain.no_node(demand, pod.requests, shown_at)
            return Hold(pod, why, min(demand.deadline, shown_at), self._mark(pod), waits=True)
        why = explain.waiting(demand, place.warm_somewhere, pod.requests, self._now)
        return Hold(pod, why, demand.deadline, self._mark(pod), waits=True)


def _may_go_cold(pairs: Pairs) -> bool:
    return all(demand.mode is not SchedulingMode.REQUIRE for _, demand in pairs)


def _gist(dataset: Dataset | None, invalid: InvalidDataset | None) -> object:
    """Return all of a Dataset that gating looks at, but for what nodes report."""
    if dataset is None:
        return None if invalid is None else (invalid.reason, invalid.sentence)
    spec, status = dataset.spec, dataset.status
    told = [(one.type, one.reason, one.message) for one in status.conditions if one.reason in explain.TOLD_OF]
    data = (dataset.metadata.uid, status.version, status.bytes, spec.warm.told_paths)
    nodes = (spec.warm.nodes, NodeRule.of(spec.cache))
    return data, spec.scheduling, spec.access, nodes, spec.warm.paused, told
