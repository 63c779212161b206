"""The level-triggered pass over all Datasets: look at the mirror, decide, hand in what is to be written, by object."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from stoker_api.dataset import Dataset
from stoker_api.dataset_status import Phase
from stoker_kube.events import EventRecorder
from stoker_operator import metrics
from stoker_operator.core.credentials_rbac import named_by
from stoker_operator.core.dataset_decision import Decision
from stoker_operator.core.entry_room import no_room_sentence
from stoker_operator.core.kept_decision import KeptDecision
from stoker_operator.core.origin_ledger import OriginLedger
from stoker_operator.core.origin_policy import OriginPolicy
from stoker_operator.core.plan import DatasetPlan
from stoker_operator.core.views import ClusterView
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.credential_rights import CredentialRights, rights_key
from stoker_operator.reconcilers.dataset_finalizers import DELETION, DatasetFinalizers, deletion_key, hold_key
from stoker_operator.reconcilers.dataset_statuses import DatasetStatuses, Troubles
from stoker_operator.reconcilers.dataset_volumes import DatasetVolumes, volume_key
from stoker_operator.reconcilers.keyed_work import KeyedWork
from stoker_operator.reconcilers.node_accounts import NodeAccounts, making_key
from stoker_operator.reconcilers.node_cache_plans import (
    NodeCachePlans,
    awaited_nodes,
    found_in,
    node_cache_key,
    nodes_of,
)
from stoker_operator.reconcilers.slices import in_slices
from stoker_operator.reconcilers.turns import KeyedAction
from stoker_operator.work_turns import WORK
from stoker_operator.writer import Writer


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
        self._kept = KeptDecision()
        self._view = ClusterView()  # of the last decision
        self._missed = frozenset[str]()  # keys of what changed, until a pass with it has come to its end
        self._phases: Final = _PhaseCounts()
        self._unreadable: Final[set[str]] = set()  # keys of Datasets that name what not all of their nodes may read yet
        self._policy: Final = origins or OriginPolicy()
        self._ledger: Final = OriginLedger(self._policy)

    async def reconcile(self) -> float | None:
        """Run one pass; gives the seconds after which time alone calls for another. Waits for no write.

        A long one gives the loop back between its steps, and goes on with the cluster as it was when it began.
        """
        await in_slices(self._state.prepare())
        now = self._clock()
        decision = await self._decide(self._shared(self._state.snapshot(), now), now)
        view = decision.view
        async with WORK.one():
            self._phases.count(view.datasets, decision.changed)
            _measure(self._state.sizes())
            self._plans.keep_only(view.nodes)
            troubles = self._troubles_of(decision)
        await in_slices(self._statuses.work_out(decision, self._volumes.note, troubles))
        rights = await in_slices(self._rights.actions(decision))
        due = await in_slices(self.work.take_in_steps(self._actions(decision, rights, now)))
        self._missed = frozenset()
        times = [time - now for time in (decision.look_again, self._statuses.due) if time is not None]
        again = view.shares.look_again
        times += [again - now] if again is not None else []
        times += [seconds for seconds in (due, self._volumes.due(now)) if seconds is not None]
        return max(0.0, min(times)) if times else None

    def _shared(self, view: ClusterView, now: float) -> ClusterView:
        """Add what nodes may ask object stores for, by what they say."""
        shares = self._ledger.update(view.node_caches, now)
        metrics.show_origins(self._ledger.figures(), len(shares.slowed), self._ledger.slowdowns)
        return replace(view, origin_policy=self._policy, shares=shares)

    async def _decide(self, view: ClusterView, now: float) -> Decision:
        wanted, versions = self._state.wanted, self._state.wanted_versions
        try:
            work = self._kept.decide(view, wanted, now, self._may_be_given, versions, self._asked_anew)
            decision = await in_slices(work)
        except BaseException:
            self._kept = KeptDecision()  # what was half done is not to be built upon, and what went is not known
            self._missed |= {*self._view.datasets, *self._view.invalid_datasets}
            raise
        self._view = view
        self._missed |= {*decision.changed, *self._volumes.take_noted()}
        self._unreadable.difference_update(key for key in self._missed if key not in decision.plans)
        return replace(decision, changed=self._missed)

    def _actions(self, decision: Decision, rights: Sequence[KeyedAction], now: float) -> Iterator[KeyedAction]:
        finalizers = list(self._finalizers.actions(decision))
        # No last word on those that go now: it would change them, and the finalizer comes off what is as it was.
        going = {action.key for action in finalizers if action.step == DELETION} - self.work.waiting()
        yield from finalizers
        yield from self._accounts.actions(decision.view)
        yield from rights
        yield from self._plans.actions(decision.nodes.writes, awaited_nodes(self._state.wanted, decision.plans))
        yield from self._volumes.actions(decision.view.datasets, decision.changed, now)
        yield from self._statuses.actions(decision, lambda key: deletion_key(key) in going)

    def _may_be_given(self, plan: DatasetPlan) -> bool:
        """Tell whether nodes may be told of it: a node that is told asks for the Secret at once.

        Its rights are written, or cannot be, which is not worth waiting for.
        """
        key, written = plan.dataset.key, self._rights.is_written(plan)
        if written:
            self._unreadable.discard(key)
        else:
            self._unreadable.add(key)
        return written or any(map(self.work.trouble, _keys_of_rights(plan)))

    def _asked_anew(self) -> Collection[str] | None:
        """Return the Datasets of which nodes may be told otherwise than before though their plans are the same."""
        return None if self._rights.moved() else list(self._unreadable)

    def _troubles_of(self, decision: Decision) -> Troubles | None:
        """Make what says, in sentences, what could not be written for a Dataset; None where that is nothing at all."""
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
    """Name what is written so that its nodes may read what it names."""
    found = list(named_by(plan.dataset.metadata.namespace, plan.dataset.spec.source.credentials))
    return [*map(rights_key, found), *map(making_key, plan.nodes())] if found else []


def _measure(sizes: Mapping[str, int]) -> None:
    for table, size in sizes.items():
        metrics.OBJECTS.labels(table).set(size)


class _PhaseCounts:
    """How many Datasets are in which phase, for metrics."""

    def __init__(self) -> None:
        self._phases: Final[dict[str, Phase]] = {}
        self._counts: Final[Counter[Phase]] = Counter()

    def count(self, datasets: Mapping[str, Dataset], changed: Iterable[str]) -> None:
        """Take over the Datasets that changed, by key, and show all."""
        for key in changed:
            before = self._phases.pop(key, None)
            if before is not None:
                self._counts[before] -= 1
            if key in datasets:
                self._phases[key] = phase = datasets[key].status.phase or Phase.PENDING
                self._counts[phase] += 1
        for phase in Phase:
            metrics.DATASETS.labels(phase.value).set(self._counts[phase])
