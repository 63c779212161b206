"""Decide which held pods are released, and where to. Explain why the rest wait, and which nodes should warm for them.

A pod is released to warm nodes when one has room for it, after the needs of pods already released. The warm nodes are
required if the pod says so or if there is spare warm room. Otherwise they are preferred, so that rules unknown to
gating do not trap the pod. Gangs are released whole or not at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from stoker_api.datasets.dataset import Dataset, SchedulingMode
from stoker_api.names import Reason
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.times import format_time
from stoker_operator.core.fitting.node_bits import first
from stoker_operator.core.fitting.pod_demand import PodDemand, Unmet, read_demand
from stoker_operator.core.gating import explain
from stoker_operator.core.gating.explain import Hindrance, futile, hindrance, is_settled
from stoker_operator.core.gating.gate_index import GateIndex
from stoker_operator.core.gating.gate_pods import GatePods, Group, other_gates
from stoker_operator.core.gating.pod_class import Order, PodClass
from stoker_operator.core.gating.releases import (
    SHOWN_AFTER,
    Hold,
    Outcome,
    Release,
    Releases,
    WantedNodes,
    freed_pod,
    is_freed,
    never_held,
)
from stoker_operator.core.gating.turn_order import TurnOrder
from stoker_operator.core.gating.wanted_nodes import find_wanted
from stoker_operator.core.placement.node_rules import NodeRule
from stoker_operator.core.views.cluster import ClusterView, InvalidDataset, NodeView, PodView

_AGAIN = 30.0  # seconds until a failed decision is retried
Pairs = Sequence[tuple[PodView, PodDemand]]


class Gating:
    """Decides on held pods, oldest first. Each pass covers only pods that a change may affect.

    The ``put_...`` methods update state between passes. The results of ``decide`` equal a decision from scratch. Times
    are in seconds since the epoch.
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
        """Update a Dataset with its class applied. None: it is deleted. Its progress is ignored."""
        old = self._datasets.pop(key, None), self._invalid.pop(key, None)
        if isinstance(dataset, Dataset):
            self._datasets[key] = dataset
        elif dataset is not None:
            self._invalid[key] = dataset
        if _gist(*old) != _gist(self._datasets.get(key), self._invalid.get(key)):
            self.pods.dataset_changed(key)

    def put_node(self, name: str, node: NodeView | None, now: float) -> None:
        """Update a node. None: it is deleted."""
        self.index.put_node(name, node, now)

    def put_cache(self, name: str, cache: NodeCache | None) -> None:
        """Update a node's data. None: its NodeCache is gone."""
        self.index.put_cache(name, cache)

    def put_pod(self, key: str, pod: PodView | None) -> None:
        """Update a pod. None: it is deleted."""
        self.pods.put(key, pod)

    def decide(self, now: float, bookings: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Outcome:
        """Make a pass. ``bookings``: the possible nodes of each released pod, by its UID."""
        self._now = now
        self.index.refresh(now)
        self.index.rebook(self.pods.on_their_way(bookings))
        turns = TurnOrder(self.index, self.pods, now)
        releases: list[Release] = []
        while (key := turns.next()) is not None:
            decisions = self._decided(key)
            releases += self.pods.settle(key, decisions, now)
            turns.had_turn()
        if self.index.is_changed:
            self._wanted = find_wanted(self.index)
            self.index.changes.any = False
        self.index.changes.tick += 1
        holds, left = self.pods.news()
        times = frozenset({*self.pods.times(now), *self._wanted.silences})
        return Outcome(holds, tuple(releases), left, self._wanted, times)

    def _decided(self, key: str) -> Sequence[Hold | Release]:
        """Return the decisions on a group.

        A group whose decision fails stays held, and the next group gets its turn.
        """
        group = self.pods.groups.get(key)
        if group is None:
            return ()
        try:
            return self._group(group)
        except Exception as error:  # noqa: BLE001 -- the boundary of a group
            for pod in group.held:
                self.pods.unseat(pod)
            sentence = f"internal error, please report it: {error!r}"
            why, again = explain.unmet(Reason.INTERNAL_ERROR, sentence), self._now + _AGAIN
            return [Hold(pod, why, again) for pod in group.pods]

    def _group(self, group: Group) -> Sequence[Hold | Release]:
        freed = [freed_pod(pod) for pod in group.pods if is_freed(pod)]
        pods = [pod for pod in group.pods if not is_freed(pod)]
        return [*freed, *self._waiting(group, pods)] if pods else freed

    def _waiting(self, group: Group, pods: Sequence[PodView]) -> Sequence[Hold | Release]:
        """Decide on the pods of a group without a manual release."""
        demands = {pod.key: read_demand(pod, self._view, self._now) for pod in pods}
        pairs = [(pod, demand) for pod in pods if isinstance(demand := demands[pod.key], PodDemand)]
        self._seat(group.order, pods, demands)
        unmet = next((demand for demand in demands.values() if isinstance(demand, Unmet)), None)
        if unmet is not None:
            return [Hold(pod, explain.unmet(unmet.reason, unmet.sentence)) for pod in pods]
        if gates := other_gates(pods):
            why = explain.other_gates(gates)
            return [Hold(pod, why, held_since=self._mark(pod)) for pod in pods]
        if group.present < group.size:
            missing = f"all of the gang existed ({group.present} of {group.size})"
            return self._overdue(pairs, missing) or [self._incomplete(group, *pair) for pair in pairs]
        decided = self._to_warm_nodes(pairs) or self._unwarmed(pairs)
        decided = decided or self._overdue(pairs) or self._shown(pairs)
        return decided or [self._hold(*pair) for pair in pairs]

    def _seat(self, turn: Order, pods: Sequence[PodView], demands: Mapping[str, PodDemand | Unmet]) -> None:
        """Give each pod its place. A pod with invalid constraints gets the error instead."""
        for pod in pods:
            demand = demands[pod.key]
            if isinstance(demand, Unmet):
                self.pods.unseat(pod.key)
                continue
            found: PodClass | Exception
            try:
                found = self.index.place(pod, demand, self._now)
            except Exception as error:  # noqa: BLE001 -- the boundary of a pod
                found = error
            self.pods.seat(pod, found, turn)

    def _mark(self, pod: PodView) -> str | None:
        """Return the new value of the held-since annotation, or None to keep it.

        It is the time when Stoker's gate became the only one, or "" while other gates remain.
        """
        if pod.other_gates:
            return "" if pod.held_since is None else None
        return format_time(self._now) if pod.held_since == 0.0 else None

    def _incomplete(self, group: Group, pod: PodView, demand: PodDemand) -> Hold:
        why = explain.gang(group.size, demand, self._now)
        return Hold(pod, why, demand.deadline, self._mark(pod))

    def _to_warm_nodes(self, pairs: Pairs) -> Sequence[Release]:
        """Return a release for each pod, or () with the bookings undone."""
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
        # After all bookings: spare room is room that no pod of the gang takes.
        return [
            self._warm(pod, demand, booked[pod.key]) if pod.key in booked else never_held(pod, demand)
            for pod, demand in pairs
        ]

    def _warm(self, pod: PodView, demand: PodDemand, node: str) -> Release:
        return self._releases.warm(pod, demand, self.pods.place(pod), node)

    def _unwarmed(self, pairs: Pairs) -> Sequence[Release]:
        """Return releases for all pods if nothing will warm the data of one."""
        causes = next((found for pair in pairs if (found := self._futile(*pair))), ())
        if not causes or not _may_go_cold(pairs):
            return ()
        releases = (self._releases.cold(pod, demand, self.pods.place(pod)) for pod, demand in pairs)
        return [
            replace(one, reason=causes[0].reason, sentence=explain.unwarmed(demand, causes))
            for one, (_, demand) in zip(releases, pairs, strict=True)
        ]

    def _futile(self, pod: PodView, demand: PodDemand) -> Sequence[Hindrance]:
        return () if self.pods.place(pod).warm_somewhere else futile(demand)

    def _overdue(self, pairs: Pairs, missing: str = "") -> Sequence[Release]:
        """Return releases for all pods if one waited as long as it may. No pod waits longer than its own maxWait."""
        if not _may_go_cold(pairs) or not any(self._now >= demand.deadline for _, demand in pairs):
            return ()
        return [self._releases.cold(pod, demand, self.pods.place(pod), missing) for pod, demand in pairs]

    def _shown(self, pairs: Pairs) -> Sequence[Release]:
        """Return releases for all pods if one needs a new node. Autoscalers ignore held pods."""
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
    """Return the parts of a Dataset that gating reads, except node reports."""
    if dataset is None:
        return None if invalid is None else (invalid.reason, invalid.sentence)
    spec, status = dataset.spec, dataset.status
    told = [(one.type, one.reason, one.message) for one in status.conditions if one.reason in explain.TOLD_OF]
    data = (dataset.metadata.uid, status.version, status.bytes, spec.warm.told_paths)
    nodes = (spec.warm.nodes, NodeRule.of(spec.cache))
    return data, spec.scheduling, spec.access, nodes, hindrance(dataset), is_settled(dataset), told
