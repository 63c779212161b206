"""The level-triggered pass over all Datasets: look at the mirror, decide_datasets, write the differences."""

import asyncio
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from stoker_api import names
from stoker_api.dataset import Dataset, DatasetStatus, Phase
from stoker_api.meta import ObjectMeta
from stoker_kube.errors import Conflict
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_operator import metrics
from stoker_operator.core.credentials_rbac import SidecarIdentity
from stoker_operator.core.dataset_decision import Decision, decide_datasets
from stoker_operator.core.dataset_status import invalid_status
from stoker_operator.core.dataset_transitions import dataset_announcements, urgent
from stoker_operator.core.plan import NodeCacheWrite
from stoker_operator.core.views import ClusterView, InvalidDataset
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.credential_roles import CredentialRoles
from stoker_operator.reconcilers.dataset_finalizers import DatasetFinalizers
from stoker_operator.reconcilers.dataset_volumes import DatasetVolumes
from stoker_operator.reconcilers.retries import Retries
from stoker_operator.writer import Writer

log = logging.getLogger(__name__)

FIGURES_EVERY = 2.0  # seconds between writes of a Dataset's status when only figures moved: what an eye can follow
PARALLEL_WRITES = 8  # requests under way at once: fills a round trip of a few ms without crowding the API server


class _Write(NamedTuple):
    """One write of a pass. ``key`` names its object, for the back-off and the log."""

    key: str
    act: Callable[[], Awaitable[None]]


class DatasetReconciler:
    """Keeps nodes' plans, volumes and statuses in step with the Datasets, pass by pass (``reconcile``)."""

    def __init__(
        self,
        state: ClusterState,
        writer: Writer,
        events: EventRecorder,
        sidecar: SidecarIdentity,
        clock: Callable[[], float],
    ) -> None:
        self._state: Final = state
        self._writer: Final = writer
        self._events: Final = events
        self._retries: Final = Retries("datasets")
        self._volumes: Final = DatasetVolumes(writer, self._retries)
        self._roles: Final = CredentialRoles(writer, sidecar, self._retries)
        self._finalizers: Final = DatasetFinalizers(writer, self._volumes, self._retries)
        self._clock: Final = clock
        self._written_at: Final[dict[str, float]] = {}

    async def reconcile(self) -> float | None:
        """Run one pass. An object that cannot be written is tried again later and stops no other."""
        now = self._clock()
        view = self._state.snapshot()
        decision = decide_datasets(view, self._state.wanted, now)
        _measure(view, self._state.sizes())
        await self._finalizers.hold(view, now)
        # Rights first: a node that is told of a Dataset asks for its Secret at once.
        await self._roles.ensure(tuple(view.datasets.values()), now)
        await self._all(map(self._cache_write, decision.node_caches), now)
        await self._volumes.ensure(view.datasets.values(), now)
        due = await self._write_statuses(decision, now)
        await self._finalizers.let_go(view, decision, now)
        times = [time for time in (decision.look_again, due, self._retries.next_due(now)) if time is not None]
        return max(0.0, min(times) - now) if times else None

    def _cache_write(self, write: NodeCacheWrite) -> _Write:
        # What it should say is part of the key: a plan that changed is written at once, whatever became of the last
        # one.
        plan = hashlib.sha256(json.dumps(write.spec.wire(), sort_keys=True).encode()).hexdigest()[:8]
        return _Write(f"NodeCache {write.node.name} (plan {plan})", partial(self._write_node_cache, write))

    async def _write_node_cache(self, write: NodeCacheWrite) -> None:
        cache = await self._writer.node_cache(write)
        self._state.node_caches.put(cache.key, cache)

    async def _write_statuses(self, decision: Decision, now: float) -> float | None:
        """Write the statuses that differ; gives the time at which the earliest postponed one is due."""
        postponed: list[float] = []
        writes = [
            _Write(f"status of Dataset {key}", partial(self._write_status, decision, key, now, postponed))
            for key in decision.plans
        ]
        writes += [
            _Write(f"status of Dataset {key}", partial(self._write_invalid, key, invalid, now))
            for key, invalid in decision.view.invalid_datasets.items()
            if not invalid.metadata.deletion_timestamp
        ]
        await self._all(writes, now)
        return min(postponed, default=None)

    async def _write_status(self, decision: Decision, key: str, now: float, postponed: list[float]) -> None:
        dataset = decision.plans[key].dataset
        status = decision.status(key, self._volumes.note(dataset), now)
        if status == dataset.status:
            return
        due = self._due(key, dataset.status, status, now)
        if due > now:
            postponed.append(due)
        else:
            await self._replace_status(dataset, status, now)

    def _due(self, key: str, old: DatasetStatus, new: DatasetStatus, now: float) -> float:
        return now if urgent(old, new) else self._written_at.get(key, 0.0) + FIGURES_EVERY

    async def _replace_status(self, dataset: Dataset, status: DatasetStatus, now: float) -> None:
        try:
            written = await self._writer.dataset_status(dataset.key, dataset.metadata.uid, status)
        except Conflict:
            log.info("Dataset %s was deleted and made anew: the next pass sees the new one", dataset.key)
            return
        self._written_at[dataset.key] = now
        if written is None:
            return
        self._state.datasets.put(dataset.key, written)
        self._announce(dataset_ref(written.metadata), dataset.status, status)

    async def _write_invalid(self, key: str, invalid: InvalidDataset, now: float) -> None:
        status = invalid_status(invalid.status, invalid.metadata.generation, invalid.sentence, now)
        if status != invalid.status:
            await self._writer.dataset_status(key, invalid.metadata.uid, status)
            self._announce(dataset_ref(invalid.metadata), invalid.status, status)

    async def _all(self, writes: Iterable[_Write], now: float) -> None:
        """Run all writes, a few at once; one that fails stops no other."""
        slots = asyncio.Semaphore(PARALLEL_WRITES)

        async def one(write: _Write) -> None:
            async with slots:
                await self._retries.attempt(write.key, now, write.act)

        await asyncio.gather(*map(one, writes))

    def _announce(self, ref: ObjectRef, old: DatasetStatus, new: DatasetStatus) -> None:
        for one in dataset_announcements(old, new):
            self._events.event(ref, one.type, one.reason, one.message)


def dataset_ref(meta: ObjectMeta) -> ObjectRef:
    """Return what an event about a Dataset points to."""
    return ObjectRef(names.API_VERSION, Dataset.KIND, meta.name, meta.namespace, meta.uid)


def _measure(view: ClusterView, sizes: Mapping[str, int]) -> None:
    phases = Counter(dataset.status.phase or Phase.PENDING for dataset in view.datasets.values())
    for phase in Phase:
        metrics.DATASETS.labels(phase.value).set(phases[phase])
    for table, size in sizes.items():
        metrics.OBJECTS.labels(table).set(size)
