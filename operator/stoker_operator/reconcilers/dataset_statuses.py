"""Writes the statuses of Datasets, with what could not be written for them, and tells of what changed."""

import logging
from collections.abc import Callable, Iterable
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
from stoker_operator.core.spoiled import Spoiled
from stoker_operator.core.views import InvalidDataset
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.turns import Act, KeyedAction
from stoker_operator.writer import Writer

log = logging.getLogger(__name__)

FIGURES_EVERY = 2.0  # seconds between writes of a Dataset's status when only figures moved: what an eye can follow

Troubles = Callable[[str], tuple[str, ...]]  # what could not be written for a Dataset, by its key


class DatasetStatuses:
    """The statuses of all Datasets; ``clock`` gives seconds since the epoch."""

    def __init__(self, writer: Writer, state: ClusterState, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._events: Final = events
        self._clock: Final = clock
        self._written_at: dict[str, float] = {}
        self._due: float | None = None

    @property
    def due(self) -> float | None:
        """Seconds since the epoch at which the earliest postponed write is due; None when there is none."""
        return self._due

    def actions(
        self, decision: Decision, keys: Iterable[str], note: Callable[[Dataset], str], troubles: Troubles
    ) -> Iterable[KeyedAction]:
        """Return what would write the statuses that differ, of the Datasets ``keys`` and those that do not parse.

        ``note`` goes with a Dataset's condition Accepted.
        """
        self._due = None
        self._written_at = {key: at for key, at in self._written_at.items() if key in decision.view.datasets}
        spoiled = Spoiled()
        for key in keys:
            dataset = decision.view.datasets[key]
            meta = dataset.metadata
            status = spoiled.attempt(key, partial(self._work_out, decision, key, note, troubles))
            if status is None:
                status = troubled_status(dataset.status, meta.generation, spoiled[key], self._clock())
            if status != dataset.status and not self._postponed(key, dataset.status, status):
                error = decision.spoiled.error(key) or spoiled.error(key)
                if error is not None:
                    log.warning("Dataset %s cannot be worked out and is left as it is", key, exc_info=error)
                yield self._action(key, meta, partial(self._write, dataset, status))
        for key, invalid in decision.view.invalid_datasets.items():
            meta, status = invalid.metadata, invalid_status(invalid, self._clock())
            if status != invalid.status and not meta.deletion_timestamp:
                yield self._action(key, meta, partial(self._write, invalid, status))

    def _work_out(
        self, decision: Decision, key: str, note: Callable[[Dataset], str], troubles: Troubles
    ) -> DatasetStatus:
        dataset, now = decision.view.datasets[key], self._clock()
        if key not in decision.plans:
            return troubled_status(dataset.status, dataset.metadata.generation, decision.spoiled[key], now)
        return decision.status(key, note(dataset), troubles(key), now)

    def _action(self, key: str, meta: ObjectMeta, act: Act) -> KeyedAction:
        return KeyedAction(
            f"status of Dataset {key}", "status", meta.namespace, act, meta.generation, dataset_ref(meta)
        )

    def _postponed(self, key: str, old: DatasetStatus, new: DatasetStatus) -> bool:
        due = 0.0 if urgent(old, new) else self._written_at.get(key, 0.0) + FIGURES_EVERY
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
