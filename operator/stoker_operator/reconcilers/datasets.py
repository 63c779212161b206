"""The level-triggered pass over all Datasets: read the mirror, decide, and hand in the writes by object."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from math import inf
from typing import Final

from prometheus_client import Gauge

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import Phase
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_operator import metrics
from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.incremental.decision import IncrementalDecision
from stoker_operator.core.origins.origin_ledger import OriginLedger
from stoker_operator.core.origins.origin_policy import OriginPolicy
from stoker_operator.core.plans.credentials_rbac import named_by
from stoker_operator.core.plans.entry_room import no_room_sentence
from stoker_operator.core.plans.on_time import LATE_REASONS, late_reason
from stoker_operator.core.plans.plan import DatasetPlan
from stoker_operator.core.status.failing_reads import FailingPod, failing_pods
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.credential_rights import CredentialRights, rights_key
from stoker_operator.reconcilers.dataset_finalizers import DatasetFinalizers, deletion_key, hold_key
from stoker_operator.reconcilers.dataset_statuses import DatasetStatuses, Troubles
from stoker_operator.reconcilers.dataset_volumes import DatasetVolumes, volume_key
from stoker_operator.reconcilers.loops.keyed_work import KeyedWork
from stoker_operator.reconcilers.loops.turns import KeyedAction
from stoker_operator.reconcilers.node_accounts import NodeAccounts, making_key
from stoker_operator.reconcilers.node_cache_plans import (
    NodeCachePlans,
    awaited_nodes,
    found_in,
    node_cache_key,
    nodes_of,
)
from stoker_operator.writes.writer import Writer

# Seconds between two events about the same failure of the same pod: a node with unstable reports causes no flood.
LEAST_SECONDS = 60.0
_MOST_TOLD = 10_000  # remembered failures

_Failure = tuple[str, str, str]  # the pod's UID, the Dataset's key and the reason


class FailingReadEvents:
    """Records one event per pod when its reads start to fail. ``clock``: seconds since the epoch."""

    def __init__(self, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._events: Final = events
        self._clock: Final = clock
        self._failing: Final[dict[str, frozenset[_Failure]]] = {}  # by the Dataset's key
        self._told_at: Final[dict[_Failure, float]] = {}

    def tell(self, decision: Decision) -> None:
        """Queue an event for each new failure of the changed Datasets."""
        for key in decision.changed:
            plan = decision.plans.get(key)
            pods = () if plan is None else failing_pods(decision.view, plan, decision.states)
            found = {(one.pod.uid, key, one.reads.reason): one for one in pods}
            before = self._failing.pop(key, frozenset())
            if found:
                self._failing[key] = frozenset(found)
            for failure in found.keys() - before:
                self._tell(failure, found[failure])

    def _tell(self, failure: _Failure, one: FailingPod) -> None:
        now = self._clock()
        if now - self._told_at.pop(failure, -inf) < LEAST_SECONDS:
            self._told_at[failure] = now
            return
        self._told_at[failure] = now
        if len(self._told_at) > _MOST_TOLD:
            del self._told_at[next(iter(self._told_at))]
        pod = one.pod
        about = ObjectRef("v1", "Pod", pod.name, pod.namespace, pod.uid)
        self._events.event(about, "Warning", one.reads.reason, one.sentence)


class DatasetReconciler:
    """Keeps nodes' plans, volumes and statuses in step with the Datasets, pass by pass (``reconcile``)."""

    def __init__(
        self,
        state: ClusterState,
        writer: Writer,
        events: EventRecorder,
        clock: Callable[[], float],
        origins: OriginPolicy | None = None,
    ) -> None:
        self._state: Final = state
        self._clock: Final = clock
        self.work: Final = KeyedWork("datasets", clock, events, budget=writer.budget)
        self._volumes: Final = DatasetVolumes(writer, clock, self.work.wake)
        self._accounts: Final = NodeAccounts(writer, state, state.own_namespace)
        self._rights: Final = CredentialRights(writer, state, state.own_namespace)
        self._finalizers: Final = DatasetFinalizers(writer, state, self._volumes)
        self._plans: Final = NodeCachePlans(writer, state, clock, self.work.wake)
        self._statuses: Final = DatasetStatuses(writer, state, events, clock)
        self._failing_reads: Final = FailingReadEvents(events, clock)
        self._kept = IncrementalDecision()
        self._view = ClusterView()  # of the last decision
        self._missed = frozenset[str]()  # keys of changed Datasets, until a pass that includes them completes
        self._phases: Final = _Tally(Phase, metrics.DATASETS)
        self._late: Final = _Tally(LATE_REASONS, metrics.LATE)
        self._unreadable: Final[set[str]] = set()  # keys of Datasets whose credentials some nodes may not read yet
        self._policy: Final = origins or OriginPolicy()
        self._ledger: Final = OriginLedger(self._policy)

    async def reconcile(self) -> float | None:
        """Run one pass; return the seconds until time alone requires the next. Does not wait for writes."""
        now = self._clock()
        decision = self._decide(self._shared(self._state.snapshot(), now), now)
        view = decision.view
        self._count(view.datasets, decision.changed)
        _measure(self._state.sizes())
        self._plans.keep_only(view.nodes)
        self._failing_reads.tell(decision)
        self._statuses.work_out(decision, self._volumes.note, self._troubles_of(decision))
        due = self.work.take(self._actions(decision, self._rights.actions(decision), now))
        self._missed = frozenset()
        times = [time - now for time in (decision.look_again, self._statuses.due) if time is not None]
        again = view.shares.look_again
        times += [again - now] if again is not None else []
        times += [seconds for seconds in (due, self._volumes.due(now)) if seconds is not None]
        return max(0.0, min(times)) if times else None

    def _count(self, datasets: Mapping[str, Dataset], changed: Iterable[str]) -> None:
        for key in changed:
            status = datasets[key].status if key in datasets else None
            self._phases.put(key, None if status is None else status.phase or Phase.PENDING)
            self._late.put(key, None if status is None else late_reason(status.conditions))
        self._phases.show()
        self._late.show()

    def _shared(self, view: ClusterView, now: float) -> ClusterView:
        """Add the nodes' shares of the object stores' request rates, from their reports."""
        before = self._ledger.slowdowns
        shares = self._ledger.update(view.node_caches, now)
        metrics.show_origins(self._ledger.figures(), len(shares.slowed), self._ledger.slowdowns - before)
        return replace(view, origin_policy=self._policy, shares=shares)

    def _decide(self, view: ClusterView, now: float) -> Decision:
        wanted, versions = self._state.wanted, self._state.wanted_versions
        try:
            decision = self._kept.decide(view, wanted, now, self._may_be_given, versions, self._asked_anew)
        except BaseException:
            self._kept = IncrementalDecision()  # half a decision is no basis, and the changes it saw are lost
            self._missed |= {*self._view.datasets, *self._view.invalid_datasets}
            raise
        self._view = view
        self._missed |= {*decision.changed, *self._volumes.take_noted()}
        self._unreadable.difference_update(key for key in self._missed if key not in decision.plans)
        return replace(decision, changed=self._missed)

    def _actions(self, decision: Decision, rights: Sequence[KeyedAction], now: float) -> Iterator[KeyedAction]:
        finalizers = list(self._finalizers.actions(decision))
        # A status of the same moment would change the object, and then the write of its finalizers would fail.
        first = {action.key for action in finalizers} - self.work.waiting()

        def is_later(key: str) -> bool:
            return not first.isdisjoint((hold_key(key), deletion_key(key)))

        yield from finalizers
        yield from self._accounts.actions(decision.view)
        yield from rights
        yield from self._plans.actions(decision.nodes.writes, awaited_nodes(self._state.wanted, decision.plans))
        yield from self._volumes.actions(decision.view.datasets, decision.changed, now)
        yield from self._statuses.actions(decision, is_later)

    def _may_be_given(self, plan: DatasetPlan) -> bool:
        """Return True if nodes may get this Dataset. A node reads its Secret at once.

        True if its rights are written, or if writing them failed: then waiting does not help.
        """
        key, written = plan.dataset.key, self._rights.is_written(plan)
        if written:
            self._unreadable.discard(key)
        else:
            self._unreadable.add(key)
        return written or any(map(self.work.trouble, _keys_of_rights(plan)))

    def _asked_anew(self) -> Collection[str] | None:
        """Return the Datasets whose answer of ``_may_be_given`` may have changed; None: any of them."""
        return None if self._rights.moved() else list(self._unreadable)

    def _troubles_of(self, decision: Decision) -> Troubles | None:
        """Return a function from a Dataset's key to sentences about failed writes; None if nothing failed."""
        troubles = self.work.troubles()
        if not (troubles or decision.spoiled or decision.nodes.left_out or self._plans.refuses()):
            return None
        nodes = nodes_of(troubles)

        def of(key: str) -> tuple[str, ...]:
            plan = decision.plans[key]
            keys = [hold_key(key), volume_key(key), deletion_key(key)]
            keys += [node_cache_key(node) for node in found_in(plan.nodes(), nodes)]
            keys += _keys_of_rights(plan) if troubles else []
            failed = (f"{one}: {troubles[one]}" for one in keys if one in troubles)
            spoiled = (decision.spoiled[key],) if key in decision.spoiled else ()
            uid = plan.dataset.metadata.uid
            crowded = (no_room_sentence(node) for node in decision.nodes.left_out.get(uid, ()))
            return (*spoiled, *failed, *crowded, *self._plans.troubles(uid, plan.nodes()))

        return of


def _keys_of_rights(plan: DatasetPlan) -> list[str]:
    """Return the keys of the actions that let its nodes read its credentials."""
    found = list(named_by(plan.dataset.metadata.namespace, plan.dataset.spec.source.credentials))
    return [*map(rights_key, found), *map(making_key, plan.nodes())] if found else []


def _measure(sizes: Mapping[str, int]) -> None:
    for table, size in sizes.items():
        metrics.OBJECTS.labels(table).set(size)


class _Tally:
    """Number of Datasets per value, such as a phase, as a metric. The values are a closed set."""

    def __init__(self, values: Iterable[StrEnum], gauge: Gauge) -> None:
        self._values: Final = tuple(values)
        self._gauge: Final = gauge
        self._of: Final[dict[str, StrEnum]] = {}
        self._counts: Final[Counter[StrEnum]] = Counter()

    def put(self, key: str, value: StrEnum | None) -> None:
        """Count a Dataset under another value; None: under no value."""
        before = self._of.pop(key, None)
        if before is not None:
            self._counts[before] -= 1
        if value is not None:
            self._of[key] = value
            self._counts[value] += 1

    def show(self) -> None:
        """Update the metric."""
        for value in self._values:
            self._gauge.labels(value.value).set(self._counts[value])
