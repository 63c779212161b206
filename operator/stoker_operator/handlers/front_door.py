"""Feeds Datasets and TrainingJobs into the mirror, on every replica. kopf watches them, and a list corrects the mirror.

kopf reports neither the end of its first list nor deletions that it missed, and one of its watches may fall silent.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from stoker_kube.api import Kube, Object
from stoker_kube.errors import KubeError
from stoker_kube.informer import key_of
from stoker_kube.resources import DATASETS, TRAINING_JOBS, Kind
from stoker_operator import metrics
from stoker_operator.core.plans.admission import parse_dataset, parse_training_job
from stoker_operator.handlers.kopf_runtime import KopfThread, make_registry
from stoker_operator.mirror.identity import identity_of, seen_of, version_of
from stoker_operator.mirror.state import ClusterState, MirrorTable

log = logging.getLogger(__name__)

RESYNC = 300.0  # seconds between two lists: a missed deletion stays unknown for that long
RETRY = 1.0  # seconds after a list that failed
PATIENCE = 10.0  # seconds that kopf has to report an object of the list before it is restarted
_PARSERS: Final[Mapping[Kind, Callable[[Object], Any]]] = {DATASETS: parse_dataset, TRAINING_JOBS: parse_training_job}


class FrontDoor:
    """Feeds Datasets and TrainingJobs into ``state``."""

    def __init__(self, kube: Kube, state: ClusterState) -> None:
        self._kube: Final = kube
        self._tables: Final[Mapping[Kind, MirrorTable[Any]]] = {
            DATASETS: state.datasets,
            TRAINING_JOBS: state.training_jobs,
        }
        self._unheard: Final[set[str]] = set()  # UIDs of listed objects that kopf has not reported since
        self._whole: Final = asyncio.Event()

    @property
    def whole(self) -> bool:
        """True once all objects that existed at the start are known. Before that, missing ones would look deleted."""
        return self._whole.is_set()

    async def wait_whole(self) -> None:
        """Wait until all objects from the start are known."""
        await self._whole.wait()

    async def run(self) -> None:
        """Run kopf and correct the mirror by lists, until cancelled."""
        loop = asyncio.get_running_loop()
        kopf = KopfThread(make_registry(lambda *event: loop.call_soon_threadsafe(self.take, *event)))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(kopf.run(), name="kopf")
            tasks.create_task(self.keep(kopf.restart), name="lists of Datasets and TrainingJobs")

    def take(self, kind: Kind, event: str | None, item: Object) -> None:
        """Take one event of kopf: DELETED, or any other type for a state. Events of an object come in any order."""
        uid = seen_of(item).uid
        self._unheard.discard(uid)
        if event == "DELETED":
            self._tables[kind].forget(key_of(item), uid)
        else:
            self._store(kind, item)

    async def keep(self, restart: Callable[[], None]) -> None:
        """List repeatedly until cancelled, and ``restart`` kopf if it does not report objects of a list.

        An object causes one restart at most: kopf may be unable to handle it. Later states come from the lists.
        """
        asked: set[str] = set()
        while True:
            try:
                for kind in self._tables:
                    await self.resync(kind)
            except KubeError as error:
                log.warning("Datasets or TrainingJobs could not be listed, trying again: %s", error)
                await asyncio.sleep(RETRY)
                continue
            self._whole.set()
            await asyncio.sleep(PATIENCE)
            if self._unheard - asked:
                log.warning(
                    "kopf does not report %d objects of the API server's list: restarting it", len(self._unheard)
                )
                restart()
            asked |= self._unheard
            self._unheard.clear()
            await asyncio.sleep(RESYNC - PATIENCE)

    async def resync(self, kind: Kind) -> None:
        """Correct the mirror by the API server's list: newer states, and objects that are gone. Raises KubeError."""
        uids: dict[str, str] = {}  # by key
        version = 0
        async for page in self._kube.pages(kind):
            version = version_of(page.resource_version)
            for item in page.items:
                uids[key_of(item)] = uid = seen_of(item).uid
                if self._store(kind, item):
                    self._unheard.add(uid)
        for key, row in self._tables[kind].snapshot().items():
            seen = identity_of(row)
            if seen.version <= version and uids.get(key) != seen.uid:
                log.info("%s %s was deleted, and no event told of it", kind.kind, key)
                self._tables[kind].forget(key, seen.uid)

    def _store(self, kind: Kind, item: Object) -> bool:
        """Store a state. Return False if the mirror has a newer one, or if it is unreadable: the last state stays."""
        table, key = self._tables[kind], key_of(item)
        changes = table.changes
        known = identity_of(table.get(key)).version
        if not known or known < seen_of(item).version:
            try:
                table.put(key, _PARSERS[kind](item))
            except Exception as error:  # noqa: BLE001 -- the boundary of an object: it must not end the loop of all
                metrics.UNREADABLE.labels(kind.kind).inc()
                log.error("%s %s cannot be read and stays unchanged: %r", kind.kind, key, error)
        return table.changes != changes
