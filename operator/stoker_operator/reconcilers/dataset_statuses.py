"""Writes the statuses of Datasets, including failed writes for them, and records events about changes."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import DatasetStatus
from stoker_api.meta import ObjectMeta
from stoker_kube.errors import Conflict, KubeError
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_operator import metrics
from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.plans.deletion import Deletion
from stoker_operator.core.plans.plan import DatasetPlan
from stoker_operator.core.status.dataset_status import invalid_status, troubled_status
from stoker_operator.core.status.dataset_transitions import WarmUpTimes, dataset_announcements, urgent
from stoker_operator.core.views.cluster import InvalidDataset
from stoker_operator.core.views.failed_objects import FailedObjects
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.loops.turns import Act, KeyedAction
from stoker_operator.writes.write_budget import WritePriority
from stoker_operator.writes.writer import Writer

log = logging.getLogger(__name__)

FIGURES_EVERY = 2.0  # seconds between writes of a Dataset's status if only figures changed

Troubles = Callable[[str], tuple[str, ...]]  # key of a Dataset -> sentences about failed writes for it


_Basis = tuple[Deletion | None, str, tuple[str, ...]]  # inputs besides the plan: deletion, note and troubles


@dataclass(frozen=True, slots=True)
class _SettledStatus:
    """The status that a Dataset should have, and its inputs."""

    plan: DatasetPlan | None
    basis: _Basis
    status: DatasetStatus | None  # None: the Dataset has it already
    urgent: bool  # more than figures differ
    error: Exception | None


class DatasetStatuses:
    """The statuses of all Datasets; ``clock`` returns seconds since the epoch."""

    def __init__(self, writer: Writer, state: ClusterState, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._events: Final = events
        self._clock: Final = clock
        self._written_at: Final[dict[str, float]] = {}
        self._warm_ups: Final = WarmUpTimes()
        self._known: Final[dict[str, _SettledStatus]] = {}
        self._differing: Final[dict[str, _SettledStatus]] = {}  # the subset to write
        self._refused: Final[dict[str, DatasetStatus]] = {}  # statuses to write of Datasets that are invalid or refused
        self._failed: Final[set[str]] = set()  # keys of Datasets whose status could not be computed
        self._troubled = False  # whether the last computation included failed writes
        self._due: float | None = None

    @property
    def due(self) -> float | None:
        """Time of the earliest postponed write in seconds since the epoch; None without a postponed write."""
        return self._due

    def work_out(self, decision: Decision, note: Callable[[Dataset], str], troubles: Troubles | None) -> None:
        """Compute the statuses of changed Datasets.

        ``note`` is added to the condition Accepted. ``troubles`` is None if no Dataset has any.
        """
        keys = {*decision.changed, *self._failed}
        if troubles is not None or self._troubled:  # a trouble may concern an object that many Datasets share
            keys.update(decision.view.datasets)
        self._troubled = self._troubled or troubles is not None  # also if this raises an error
        for key in keys:
            if key not in decision.view.datasets:
                self._leave_out(decision, key)
                continue
            plan = decision.plans.get(key)
            trouble = troubles(key) if troubles is not None and plan is not None else ()
            basis = (decision.deletions.get(key), note(decision.view.datasets[key]), trouble)
            known = self._known.get(key)
            if known is None or plan is None or known.plan is not plan or known.basis != basis or known.error:
                self._take(key, self._settle(decision, key, basis))
        self._troubled = troubles is not None

    def _take(self, key: str, settled: _SettledStatus) -> None:
        self._known[key] = settled
        self._refused.pop(key, None)
        if settled.status is not None:
            self._differing[key] = settled
        else:
            self._differing.pop(key, None)
        if settled.error is not None:
            self._failed.add(key)
        else:
            self._failed.discard(key)

    def _leave_out(self, decision: Decision, key: str) -> None:
        """Drop a Dataset that is gone; compute the status of an invalid or refused one."""
        self._known.pop(key, None)
        self._differing.pop(key, None)
        self._failed.discard(key)
        self._refused.pop(key, None)
        invalid = decision.view.invalid_datasets.get(key)
        if invalid is None:
            self._written_at.pop(key, None)
            self._warm_ups.forget(key)
        elif not invalid.metadata.deletion_timestamp:
            status = invalid_status(invalid, self._clock())
            if status != invalid.status:
                self._refused[key] = status

    def _settle(self, decision: Decision, key: str, basis: _Basis) -> _SettledStatus:
        dataset, plan, now = decision.view.datasets[key], decision.plans.get(key), self._clock()
        meta, spoiled, sentence = dataset.metadata, FailedObjects(), decision.spoiled.get(key, "")
        status = None
        if plan is not None:
            status = spoiled.attempt(key, lambda: decision.status(key, basis[1], basis[2], now))
            sentence = spoiled.get(key, sentence)
        if status is None:
            status = troubled_status(dataset.status, meta.generation, sentence, now)
        other = None if status == dataset.status else status
        return _SettledStatus(plan, basis, other, urgent(dataset.status, status), spoiled.error(key))

    def actions(self, decision: Decision, is_later: Callable[[str], bool]) -> Iterable[KeyedAction]:
        """Return the actions that write changed statuses. ``is_later``: True for the Datasets of the next pass."""
        self._due = None
        for key, one in self._differing.items():
            dataset = decision.view.datasets[key]
            if one.status is None or is_later(key) or self._postponed(key, one):
                continue
            error = decision.spoiled.error(key) or one.error
            if error is not None:
                log.warning("Dataset %s caused an internal error and stays unchanged", key, exc_info=error)
            yield self._action(key, dataset.metadata, partial(self._write, dataset, one.status))
        for key, status in self._refused.items():
            if is_later(key):
                continue
            invalid = decision.view.invalid_datasets[key]
            yield self._action(key, invalid.metadata, partial(self._write, invalid, status))

    def _action(self, key: str, meta: ObjectMeta, act: Act) -> KeyedAction:
        name, about = f"status of Dataset {key}", dataset_ref(meta)
        return KeyedAction(name, "status", meta.namespace, act, meta.generation, about, WritePriority.STATUS)

    def _postponed(self, key: str, one: _SettledStatus) -> bool:
        due = 0.0 if one.urgent else self._written_at.get(key, 0.0) + FIGURES_EVERY
        if due <= self._clock():
            return False
        self._due = due if self._due is None else min(self._due, due)
        return True

    async def _write(self, known: Dataset | InvalidDataset, status: DatasetStatus) -> None:
        try:
            await self._replace(known, status)
        except Conflict:
            log.debug("Dataset %s changed: the next pass reads it again", _key(known))
        except KubeError as error:
            if error.temporary:
                raise
            # The API server refuses something in the status: write the old one, with the reason.
            meta = known.metadata
            sentence = f"its status was refused: {error.message}"
            await self._replace(known, troubled_status(known.status, meta.generation, sentence, self._clock()))
            raise

    async def _replace(self, known: Dataset | InvalidDataset, status: DatasetStatus) -> None:
        key, there = _key(known), self._state.datasets.get(_key(known))
        if there is None or there.metadata.uid != known.metadata.uid or there.status != known.status:
            return  # gone, or written during a long decision: the next pass has the new status
        written = await self._writer.dataset_status(there.metadata, status)
        self._written_at[key] = self._clock()
        if written is None:
            return  # only the watch reports a deletion: a 404 may mean that the kind is not served
        self._state.datasets.put(key, written)
        if (seconds := self._warm_ups.note(key, known.status, status, self._clock())) is not None:
            metrics.WARM_SECONDS.observe(seconds)
        for one in dataset_announcements(known.status, status):
            self._events.event(dataset_ref(known.metadata), one.type, one.reason, one.message)


def dataset_ref(meta: ObjectMeta) -> ObjectRef:
    """Return the object of events about a Dataset."""
    return ObjectRef(names.API_VERSION, Dataset.KIND, meta.name, meta.namespace, meta.uid)


def _key(known: Dataset | InvalidDataset) -> str:
    return f"{known.metadata.namespace}/{known.metadata.name}"
