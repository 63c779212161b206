"""The level-triggered pass over all Datasets: look at the mirror, decide, write the differences."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from stoker_api import names
from stoker_api.dataset import Dataset, DatasetStatus, Phase
from stoker_kube.errors import Conflict, KubeError
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_operator import metrics
from stoker_operator.core.decide import Decision, decide
from stoker_operator.core.plan import NodeCacheWrite
from stoker_operator.core.rollup import invalid_status
from stoker_operator.core.transitions import announcements, urgent
from stoker_operator.core.views import ClusterView, InvalidDataset
from stoker_operator.handlers.credentials import RoleKeeper
from stoker_operator.handlers.volumes import VolumeKeeper
from stoker_operator.kube import Writer
from stoker_operator.state import ClusterState, Table

log = logging.getLogger(__name__)

FIGURES_EVERY = 2.0  # seconds between writes of a Dataset's status when only figures moved: what an eye can follow
PARALLEL_WRITES = 8  # requests under way at once: fills a round trip of a few ms without crowding the API server


class DatasetReconciler:
    """``reconcile`` is one pass. It gives the seconds until time alone may call for another."""

    def __init__(
        self,
        state: ClusterState,
        writer: Writer,
        events: EventRecorder,
        volumes: VolumeKeeper,
        roles: RoleKeeper,
        clock: Callable[[], float],
    ) -> None:
        self._state: Final = state
        self._writer: Final = writer
        self._events: Final = events
        self._volumes: Final = volumes
        self._roles: Final = roles
        self._clock: Final = clock
        self._written_at: Final[dict[str, float]] = {}
        self._passed = asyncio.Event()

    async def reconcile(self) -> float | None:
        """One pass. Raises the first KubeError, after everything else was tried."""
        now = self._clock()
        view = self._state.snapshot()
        decision = decide(view, self._state.wanted, now)
        _measure(view)
        # Rights first: a node that is told of a Dataset asks for its Secret at once.
        await self._roles.ensure(tuple(view.datasets.values()))
        await _all(self._write_node_cache(write) for write in decision.node_caches)
        await self._volumes.ensure(view.datasets.values(), now)
        due = await self._write_statuses(decision, now)
        self._passed.set()
        self._passed = asyncio.Event()
        times = [time for time in (decision.look_again, due) if time is not None]
        return max(0.0, min(times) - now) if times else None

    async def next_pass(self) -> None:
        """Until the next pass has written all that it decided."""
        await self._passed.wait()

    async def _write_node_cache(self, write: NodeCacheWrite) -> None:
        cache = await self._writer.node_cache(write)
        self._state.put(Table.NODE_CACHES, cache.key, cache)

    async def _write_statuses(self, decision: Decision, now: float) -> float | None:
        """Write the statuses that differ; gives the time at which the earliest postponed one is due."""
        writes, postponed = [], []
        for key, plan in decision.plans.items():
            status = decision.status(key, self._volumes.note(plan.dataset), now)
            due = self._due(key, plan.dataset.status, status, now)
            if status != plan.dataset.status and due <= now:
                writes.append(self._write_status(plan.dataset, status, now))
            elif status != plan.dataset.status:
                postponed.append(due)
        writes += [self._write_invalid(key, invalid, now) for key, invalid in decision.view.invalid_datasets.items()]
        await _all(writes)
        return min(postponed, default=None)

    def _due(self, key: str, old: DatasetStatus, new: DatasetStatus, now: float) -> float:
        return now if urgent(old, new) else self._written_at.get(key, 0.0) + FIGURES_EVERY

    async def _write_status(self, dataset: Dataset, status: DatasetStatus, now: float) -> None:
        try:
            written = await self._writer.dataset_status(dataset.key, dataset.metadata.uid, status)
        except Conflict:
            log.info("Dataset %s was deleted and made anew: the next pass sees the new one", dataset.key)
            return
        self._written_at[dataset.key] = now
        if written is None:
            return
        self._state.put(Table.DATASETS, dataset.key, written)
        self._announce(
            dataset_ref(written.metadata.namespace, written.metadata.name, written.metadata.uid), dataset.status, status
        )

    async def _write_invalid(self, key: str, invalid: InvalidDataset, now: float) -> None:
        status = invalid_status(invalid.status, invalid.generation, invalid.sentence, now)
        if status != invalid.status:
            await self._writer.dataset_status(key, invalid.uid, status)
            self._announce(dataset_ref(invalid.namespace, invalid.name, invalid.uid), invalid.status, status)

    def _announce(self, ref: ObjectRef, old: DatasetStatus, new: DatasetStatus) -> None:
        for one in announcements(old, new):
            self._events.event(ref, one.type, one.reason, one.message)


def dataset_ref(namespace: str, name: str, uid: str) -> ObjectRef:
    """What an event about a Dataset points to."""
    return ObjectRef(names.API_VERSION, Dataset.KIND, name, namespace, uid)


async def _all(writes: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all writes, a few at once; one that fails stops no other. Raises the first error at the end."""
    slots = asyncio.Semaphore(PARALLEL_WRITES)

    async def one(write: Coroutine[Any, Any, None]) -> KubeError | None:
        async with slots:
            try:
                await write
            except KubeError as error:
                return error
        return None

    failed = [error for error in await asyncio.gather(*map(one, writes)) if error]
    for error in failed[1:]:
        log.warning("a write failed: %s", error)
    if failed:
        raise failed[0]


def _measure(view: ClusterView) -> None:
    phases = Counter(dataset.status.phase or Phase.PENDING for dataset in view.datasets.values())
    for phase in Phase:
        metrics.DATASETS.labels(phase.value).set(phases[phase])
    for table in Table:
        metrics.OBJECTS.labels(table.value).set(len(getattr(view, table.value)))
