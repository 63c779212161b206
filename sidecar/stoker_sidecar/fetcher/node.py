"""All datasets of this node: configure, remove, read, progress."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from stoker_api.names import Reason
from stoker_api.nodecache import NodeDataset
from stoker_sidecar.errors import NotYetConfigured, ProtocolError
from stoker_sidecar.fetcher.context import NodeContext
from stoker_sidecar.fetcher.core.lanes import Bounds, Warming, warm_slots
from stoker_sidecar.fetcher.dataset import DatasetCache
from stoker_sidecar.fetcher.download.pipeline import Pipeline
from stoker_sidecar.fetcher.download.policy import KeepWhatCame, PolicyFactory
from stoker_sidecar.fetcher.scrub import Scrubber, ScrubSettings
from stoker_sidecar.fetcher.space.cache_disk import CacheDisk, space_of
from stoker_sidecar.fetcher.space.eviction import make_room
from stoker_sidecar.fetcher.space.folders import Folders
from stoker_sidecar.fetcher.status import dataset_status, folder_rows
from stoker_sidecar.fetcher.telemetry import Notices
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.backoff import DATASET, Backoff
from stoker_sidecar.store.opening import open_store
from stoker_sidecar.store.retry import Retry
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import CachePaths, VersionPaths, check_uid
from stoker_sidecar.wire.cache_folder import FolderSpec
from stoker_sidecar.wire.fetcher_protocol import Configure, Progress, Read, ReadDone
from stoker_sidecar.worker.pieces import PieceFetcher
from stoker_sidecar.worker.store_handle import OpenStore
from stoker_sidecar.worker.transfer import InProcess

# Seconds for which a sharing of slots holds, while the limit does: it is asked for before each request.
_SLOTS_AGE = 0.2


@dataclass(frozen=True)
class CacheSettings:
    """The cache folders, the preferred one first; bytes and shares of their disks."""

    folders: tuple[FolderSpec, ...]
    floor_share: float = 0.05  # of the disk left free, so that the node's own logs and images find room
    floor_most: int = 10 * 1024**3  # bytes: a share of a very large disk would be more than a node needs
    transient_limit: int = 256 * 1024**2  # bytes of files read through and not kept, per version: 32 chunks of 8 MiB
    scrub: ScrubSettings = field(default_factory=ScrubSettings)
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)
    bounds: Bounds = field(default_factory=Bounds)
    policy: PolicyFactory = KeepWhatCame


@dataclass(frozen=True)
class NodeDependencies:
    """The world, so that tests can pass in another."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    now: Callable[[], float] = time.time
    uniform: Callable[[], float] = random.random
    backoff: Backoff = DATASET
    open_store: OpenStore | None = None
    fetcher: PieceFetcher = field(default_factory=InProcess)
    space: Callable[[Path], tuple[int, int]] = space_of


class CacheNode:
    """``open`` first, ``close`` last."""

    def __init__(self, settings: CacheSettings, world: NodeDependencies | None = None) -> None:
        self._world = world or NodeDependencies()
        self._folders = Folders([_disk(spec, settings, self._world) for spec in settings.folders], self._world.clock)
        self._notices = Notices()
        retry = Retry(self._world.sleep, self._world.uniform)
        self._pipeline = Pipeline(self._world.clock, settings.bounds)
        self._context = NodeContext(
            folders=self._folders,
            house=self,
            notices=self._notices,
            open_store=self._world.open_store or partial(open_store, settings=settings.connection, retry=retry),
            fetcher=self._world.fetcher,
            pipeline=self._pipeline,
            slots=self._slots,
            retry=retry,
            backoff=self._world.backoff,
            clock=self._world.clock,
            sleep=self._world.sleep,
            transient_limit=settings.transient_limit,
            policy=settings.policy,
        )
        self._datasets: dict[str, DatasetCache] = {}
        self._shared: dict[str, int] = {}
        self._shared_at = float("-inf")
        self._shared_limit = 0
        self._removals: set[asyncio.Task[None]] = set()
        self.news = asyncio.Event()  # set when ``progress`` should be told at once
        self._looking = asyncio.Lock()
        self._looks = 0  # that have begun
        self._evicting = asyncio.Lock()  # one asker at a time, so that two do not both count on the same room
        self._troubles: dict[CacheDisk, str] = {}
        datasets = self._datasets.values
        self._scrubber = Scrubber(
            settings.scrub,
            lambda: list(datasets()),
            self._notices,
            self._world.clock,
            self._world.sleep,
            self._world.now,
        )

    async def open(self) -> None:
        """Prepare the folders. Raises CacheDiskFailed when none of them can be used."""
        await in_thread(self._folders.open)

    async def configure(self, request: Configure) -> None:
        """A new or changed dataset. Raises ProtocolError when it does not parse."""
        try:
            config = NodeDataset.model_validate(request.dataset)
        except ValidationError as error:
            raise ProtocolError(f"the dataset of a configure request does not parse: {error}") from error
        dataset = self._datasets.get(config.uid)
        if dataset is None:
            check_uid(config.uid)
            dataset = DatasetCache(self._context, config, request.credentials)
            self._datasets[config.uid] = dataset
            await dataset.start()
        dataset.configure(config, request.credentials, frozenset(request.held))

    async def remove(self, uid: str) -> None:
        """Off the disk, known or not; when this returns it is out of sight, and deleted soon. Raises InUse."""
        dataset = self._datasets.get(uid)
        if dataset is not None:
            delete = await dataset.remove()
            del self._datasets[uid]
        else:
            delete = self._folders.discard(uid)
        task = asyncio.create_task(in_thread(delete))
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def read(self, request: Read) -> ReadDone:
        """Raises SidecarError."""
        dataset = self._datasets.get(request.uid)
        if dataset is None:
            raise NotYetConfigured(f"the fetcher was not told about the dataset {request.uid} yet: ask again")
        return await dataset.read(request)

    async def look_after(self) -> None:
        """Every few seconds: look at the folders, leave those that failed and come back to those that are well; scrub what is due."""
        await self.suspect()
        self._scrubber.start_due()
        for disk in self._folders.disks:
            if disk.trouble != self._troubles.get(disk, ""):
                self._tell(disk)
                self._troubles[disk] = disk.trouble

    def announce(self) -> None:
        """A version became whole."""
        self.news.set()

    async def suspect(self) -> None:
        """A folder answered with an error: look at all of them now, and let datasets leave those that failed.

        Who comes while others wait shares the next look with them.
        """
        begun = self._looks
        async with self._looking:
            if self._looks > begun:
                return
            self._looks += 1
            await in_thread(self._folders.look)
            for dataset in list(self._datasets.values()):
                await dataset.look()

    def promised(self, uid: str, paths: VersionPaths) -> int:
        """Bytes that other datasets than ``uid`` are still going to fetch onto the folder of ``paths``."""
        others = (dataset for dataset in self._datasets.values() if dataset.uid != uid)
        return sum(dataset.tenancy.outstanding(self._folders.disk_of(paths)) for dataset in others)

    async def make_room(self, uid: str, paths: VersionPaths, need: int) -> None:
        """Drop idle versions beside ``paths`` so that ``need`` more bytes fit; enough, or none."""
        async with self._evicting:
            await make_room(self._datasets, self._folders, self._notices, uid, paths, need)

    def progress(self) -> Progress:
        """As it is now."""
        now = self._world.clock()
        used = sum(dataset.tenancy.used_bytes for dataset in self._datasets.values())
        available = sum(disk.free() for disk in self._folders.disks if not disk.trouble)
        return Progress(
            datasets=tuple(dataset_status(dataset, now).wire() for _, dataset in sorted(self._datasets.items())),
            used_bytes=used,
            capacity_bytes=used + available,
            available_bytes=available,
            orphans=self._folders.orphans(self._datasets),
            folders=tuple(folder.wire() for folder in folder_rows(self._folders, self._datasets.values())),
            counts=tuple(row for uid, dataset in sorted(self._datasets.items()) for row in dataset.counts.rows(uid)),
            notices=self._notices.last,
        )

    async def close(self) -> None:
        """Stop; the disk stays as it is."""
        await self._scrubber.close()
        await asyncio.gather(*(dataset.close() for dataset in self._datasets.values()))
        await asyncio.gather(*self._removals)

    def _tell(self, disk: CacheDisk) -> None:
        if disk.trouble:
            self._notices.tell("", Reason.CACHE_DISK_FAILED, disk.trouble)
        else:
            self._notices.tell("", Reason.HEALTHY, f"the cache folder {disk.paths.root} is in service again")

    def _slots(self, uid: str) -> int:
        now, limit = self._world.clock(), self._pipeline.limit.value
        if now - self._shared_at >= _SLOTS_AGE or limit != self._shared_limit or uid not in self._shared:
            self._shared, self._shared_at, self._shared_limit = self._share(), now, limit
        return self._shared.get(uid, 1)

    def _share(self) -> dict[str, int]:
        warming = {
            uid: Warming(dataset.config.priority, dataset.warming.failing)
            for uid, dataset in self._datasets.items()
            if dataset.warming is not None
        }
        return warm_slots(warming, self._pipeline.limit.value)


def _disk(spec: FolderSpec, settings: CacheSettings, world: NodeDependencies) -> CacheDisk:
    paths = CachePaths(Path(spec.path))
    return CacheDisk(paths, settings.floor_share, settings.floor_most, world.clock, spec.memory, world.space)
