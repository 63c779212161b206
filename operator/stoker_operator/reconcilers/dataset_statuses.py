"""Writes the statuses of Datasets, with what could not be written for them, and tells of what changed."""

import logging
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.dataset_status import DatasetStatus
from stoker_api.meta import ObjectMeta
from stoker_kube.errors import Conflict, KubeError
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_operator.core.dataset_decision import Decision
from stoker_operator.core.dataset_status import invalid_status, troubled_status
from stoker_operator.core.dataset_transitions import dataset_announcements, urgent
from stoker_operator.core.deletion import Deletion
from stoker_operator.core.plan import DatasetPlan
from stoker_operator.core.spoiled import Spoiled
from stoker_operator.core.views import InvalidDataset
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.turns import Act, KeyedAction
from stoker_operator.write_budget import WritePriority
from stoker_operator.writer import Writer

log = logging.getLogger(__name__)

FIGURES_EVERY = 2.0  # seconds between writes of a Dataset's status when only figures moved: what an eye can follow

Troubles = Callable[[str], tuple[str, ...]]  # what could not be written for a Dataset, by its key


_Basis = tuple[Deletion | None, str, tuple[str, ...]]  # beside the plan: deletion, note and troubles


@dataclass(frozen=True, slots=True)
class _SettledStatus:
    """The status that a Dataset should have, and what it was worked out of."""

    plan: DatasetPlan | None
    basis: _Basis
    status: DatasetStatus | None  # None: it has that
    urgent: bool  # more than figures differ
    error: Exception | None


class DatasetStatuses:
    """The statuses of all Datasets; ``clock`` gives seconds since the epoch."""

    def __init__(self, writer: Writer, state: ClusterState, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._events: Final = events
        self._clock: Final = clock
        self._written_at: Final[dict[str, float]] = {}
        self._known: Final[dict[str, _SettledStatus]] = {}
        self._differing: Final[dict[str, _SettledStatus]] = {}  # of those the ones that are to be written
        self._refused: Final[dict[str, DatasetStatus]] = {}  # the same of Datasets that do not parse or are refused
        self._failed: Final[set[str]] = set()  # keys of those that could not be worked out
        self._troubled = False  # whether anything could not be written when they were worked out last
        self._due: float | None = None

    @property
    def due(self) -> float | None:
        """Seconds since the epoch at which the earliest postponed write is due; None when there is none."""
        return self._due

    def work_out(
        self, decision: Decision, note: Callable[[Dataset], str], troubles: Troubles | None
    ) -> Generator[None, None, None]:
        """Work out the statuses, in steps, of the Datasets of which anything changed.

        ``note`` goes with a Dataset's condition Accepted. Without ``troubles`` there are none anywhere.
        """
        keys = {*decision.changed, *self._failed}
        if troubles is not None or self._troubled:  # one may be of what many share, such as a node: each is asked
            keys.update(decision.view.datasets)
        self._troubled = self._troubled or troubles is not None  # also where this does not come to its end
        for key in keys:
            if key not in decision.view.datasets:
                self._leave_out(decision, key)
                continue
            plan = decision.plans.get(key)
            trouble = troubles(key) if troubles is not None and plan is not None else ()
            basis = (decision.deletions.get(key), note(decision.view.datasets[key]), trouble)
            known = self._known.get(key)
            if known is None or plan is None or known.plan is not plan or known.basis != basis or known.error:
                yield  # of one on all nodes it is a step of its own, without the look at those before
                self._take(key, self._settle(decision, key, basis))
                yield
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
        """Leave out a Dataset that is gone, or work out what is to be said of one that does not parse or is refused."""
        self._known.pop(key, None)
        self._differing.pop(key, None)
        self._failed.discard(key)
        self._refused.pop(key, None)
        invalid = decision.view.invalid_datasets.get(key)
        if invalid is None:
            self._written_at.pop(key, None)
        elif not invalid.metadata.deletion_timestamp:
            status = invalid_status(invalid, self._clock())
            if status != invalid.status:
                self._refused[key] = status

    def _settle(self, decision: Decision, key: str, basis: _Basis) -> _SettledStatus:
        dataset, plan, now = decision.view.datasets[key], decision.plans.get(key), self._clock()
        meta, spoiled, sentence = dataset.metadata, Spoiled(), decision.spoiled.get(key, "")
        status = None
        if plan is not None:
            status = spoiled.attempt(key, lambda: decision.status(key, basis[1], basis[2], now))
            sentence = spoiled.get(key, sentence)
        if status is None:
            status = troubled_status(dataset.status, meta.generation, sentence, now)
        other = None if status == dataset.status else status
        return _SettledStatus(plan, basis, other, urgent(dataset.status, status), spoiled.error(key))

    def actions(self, decision: Decision, going: Callable[[str], bool]) -> Iterable[KeyedAction]:
        """Return what would write the statuses that differ, but for the Datasets that are ``going`` now."""
        self._due = None
        for key, one in self._differing.items():
            dataset = decision.view.datasets[key]
            if one.status is None or going(key) or self._postponed(key, one):
                continue
            error = decision.spoiled.error(key) or one.error
            if error is not None:
                log.warning("Dataset %s cannot be worked out and is left as it is", key, exc_info=error)
            yield self._action(key, dataset.metadata, partial(self._write, dataset, one.status))
        for key, status in self._refused.items():
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
            log.info("Dataset %s was deleted and made anew: the next pass sees the new one", _key(known))
        except KubeError as error:
            if error.temporary:
                raise
            # Something in it is not taken: what it was is, with the reason.
            meta = known.metadata
            sentence = f"its status is not taken: {error.message}"
            await self._replace(known, troubled_status(known.status, meta.generation, sentence, self._clock()))
            raise

    async def _replace(self, known: Dataset | InvalidDataset, status: DatasetStatus) -> None:
        meta, key = known.metadata, _key(known)
        there = self._state.datasets.get(key)
        if there is not None and there.status != known.status:
            return  # it was written while a long decision was made: the next one knows that
        written = await self._writer.dataset_status(key, meta.uid, status)
        self._written_at[key] = self._clock()
        if written is None:
            return  # only the watch says that it is gone: a 404 may also mean that its kind is not served for a moment
        self._state.datasets.put(key, written)
        for one in dataset_announcements(known.status, status):
            self._events.event(dataset_ref(meta), one.type, one.reason, one.message)


def dataset_ref(meta: ObjectMeta) -> ObjectRef:
    """Return what an event about a Dataset points to."""
    return ObjectRef(names.API_VERSION, Dataset.KIND, meta.name, meta.namespace, meta.uid)


def _key(known: Dataset | InvalidDataset) -> str:
    return f"{known.metadata.namespace}/{known.metadata.name}"
