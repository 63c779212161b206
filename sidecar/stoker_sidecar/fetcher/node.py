"""All datasets of this node: configure, remove, read, progress."""

import asyncio
import logging
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from msgspec.structs import replace
from pydantic import ValidationError

from stoker_api.names import Reason
from stoker_api.node_dataset import NodeDataset
from stoker_api.origin import OriginShare
from stoker_sidecar.errors import CacheDiskFailed, DiskFull, NotYetConfigured, ProtocolError
from stoker_sidecar.fetcher.context import DownloadSettings, ListingSlots, NodeContext, NodeDependencies
from stoker_sidecar.fetcher.core.lanes import Bounds, WarmSlots
from stoker_sidecar.fetcher.core.version_tuning import VersionTuning
from stoker_sidecar.fetcher.dataset import DatasetCache
from stoker_sidecar.fetcher.download.origin_gate import OriginGate
from stoker_sidecar.fetcher.download.pipeline import Pipeline
from stoker_sidecar.fetcher.download.policy import KeepWhatCame, PolicyFactory
from stoker_sidecar.fetcher.foreseen_pages import ForeseenPages
from stoker_sidecar.fetcher.known_orders import KnownOrders
from stoker_sidecar.fetcher.page_cache import PageCache
from stoker_sidecar.fetcher.pinning import Pinning, PinSettings
from stoker_sidecar.fetcher.repairs import Repairs
from stoker_sidecar.fetcher.scrub import Scrubber, ScrubSettings
from stoker_sidecar.fetcher.space.budget import Evictor
from stoker_sidecar.fetcher.space.cache_disk import CacheDisk
from stoker_sidecar.fetcher.space.folders import CacheDisks
from stoker_sidecar.fetcher.status import dataset_status, folder_rows, source_rate
from stoker_sidecar.fetcher.telemetry import Notices
from stoker_sidecar.store.base import Retry
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.opening import open_store
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import CachePaths, check_uid
from stoker_sidecar.version.manifest import ROOT_INO
from stoker_sidecar.version.piece_maps import PieceMap, pack_maps
from stoker_sidecar.wire.cache_folder import FolderSpec
from stoker_sidecar.wire.disk_floor import DiskFloor, Floor
from stoker_sidecar.wire.fetcher_protocol import (
    NOT_WARMED,
    Ahead,
    Configure,
    Had,
    Have,
    Passed,
    Progress,
    Reach,
    Reached,
    Read,
    ReadDone,
    Returning,
    Shares,
    Tune,
    Upcoming,
)

_log = logging.getLogger(__name__)

# Seconds after which another node is told what is here though it is no more than before: that this one is there.
_UNTIL_MORE = 2.0
_MEMORY_FLOOR = DiskFloor(Floor(share=0.05), Floor())


@dataclass(frozen=True)
class CacheSettings:
    """Settings of the cache: its folders, the preferred one first, and what is left free of their disks.

    ``memory_floor``: of folders in memory, which no kubelet watches.
    """

    folders: tuple[FolderSpec, ...]
    floor: DiskFloor = field(default_factory=DiskFloor)
    memory_floor: DiskFloor = _MEMORY_FLOOR
    transient_limit: int = 256 * 1024**2  # bytes of files read through and not kept, per version: 32 chunks of 8 MiB
    scrub: ScrubSettings = field(default_factory=ScrubSettings)
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)
    bounds: Bounds = field(default_factory=Bounds)
    policy: PolicyFactory = KeepWhatCame
    peers: Path | None = None  # the folder in which the agent leaves what other nodes know this one by
    neighbours: bool = True  # they are asked for files
    last_files: bool = True  # of a mounted version that lacks little they are fetched unasked
    pinning: PinSettings = field(default_factory=PinSettings)
    cpus: str = ""  # what this process runs on, for people


class CacheNode:
    """All datasets of this node and the folders that they lie in. ``open`` first, ``close`` last."""

    def __init__(self, settings: CacheSettings, outside: NodeDependencies | None = None) -> None:
        self._outside = outside = outside or NodeDependencies()
        self._folders = CacheDisks([_disk(spec, settings, outside) for spec in settings.folders], outside.clock)
        self._notices = Notices()
        self._datasets: dict[str, DatasetCache] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self.news = asyncio.Event()  # set when ``progress`` should be told at once
        self._looking = asyncio.Lock()
        self._looks = 0  # that have begun
        self._troubles: dict[CacheDisk, str] = {}
        self._context = self._share(settings, outside)
        self.repairs = Repairs()
        self._orders = KnownOrders(self._context.downloads.pipeline.limit)
        self._cpus = settings.cpus
        self._pinning = Pinning(settings.pinning, outside.memory, outside.clock)
        self._foreseen = ForeseenPages(self._context.pages, outside.memory)
        self._scrubber = Scrubber(
            settings.scrub, self._datasets, self._notices, self.repairs, outside.clock, outside.sleep, outside.now
        )

    def _share(self, settings: CacheSettings, outside: NodeDependencies) -> NodeContext:
        retry = Retry(outside.sleep, outside.uniform)
        pipeline = Pipeline(outside.clock, settings.bounds)
        return NodeContext(
            outside=outside,
            open_store=outside.open_store or partial(open_store, settings=settings.connection, retry=retry),
            folders=self._folders,
            evictor=Evictor(self._notices),
            slots=WarmSlots(outside.clock, pipeline.limit),
            listings=ListingSlots(),
            downloads=DownloadSettings(
                pipeline,
                retry,
                settings.policy,
                settings.transient_limit,
                settings.peers,
                neighbours=settings.neighbours,
                last_files=settings.last_files,
            ),
            news=self.news,
            pages=PageCache(outside.memory),
            gate=OriginGate(outside.clock, outside.now),
        )

    async def open(self) -> None:
        """Prepare the folders. Raises CacheDiskFailed when none of them can be used."""
        await in_thread(self._folders.open)
        for disk in self._folders.serving:
            self._delete(disk.empty_trash)

    async def configure(self, request: Configure) -> None:
        """Take up a new or changed dataset. Raises ProtocolError when it does not parse."""
        try:
            config = NodeDataset.model_validate(request.dataset)
        except ValidationError as error:
            raise ProtocolError(f"the dataset of a configure request does not parse: {error}") from error
        dataset = self._datasets.get(config.uid)
        if dataset is None:
            check_uid(config.uid)
            dataset = DatasetCache(self._context, config, request.credentials)
            self._datasets[config.uid] = dataset
            self._context.evictor.add(dataset.budget)
            await dataset.start()
        dataset.configure(config, request.credentials, Counter(request.held))

    def share(self, request: Shares) -> None:
        """Take what this node may ask of object stores. Raises ProtocolError when it does not parse."""
        try:
            shares = [OriginShare.model_validate(row) for row in request.rows]
        except ValidationError as error:
            raise ProtocolError(f"the shares of origins do not parse: {error}") from error
        self._context.gate.set_shares(shares)

    def tune(self, request: Tune) -> None:
        """Take how files of a version are to be treated. Raises NotYetConfigured and ProtocolError."""
        if (dataset := self._datasets.get(request.uid)) is None:
            raise NotYetConfigured(f"the fetcher was not told about the dataset {request.uid} yet: tune it later")
        dataset.tune(request.digest, VersionTuning(request.knobs, request.groups))

    def foresee(self, request: Ahead) -> None:
        """Take what will be read next of a version. Raises NotYetConfigured."""
        dataset = self._datasets.get(request.uid)
        fetching = dataset.versions.fetchings.get(request.digest) if dataset is not None else None
        if dataset is None or fetching is None:
            raise NotYetConfigured(f"version {request.digest[:12]} is not open on this node: say it later")
        self._orders.take(request, dataset, fetching)

    def foretell(self, request: Returning) -> None:
        """Take which files of a version come again soon. Raises NotYetConfigured and ProtocolError."""
        dataset = self._datasets.get(request.uid)
        fetching = dataset.versions.fetchings.get(request.digest) if dataset is not None else None
        if fetching is None:
            raise NotYetConfigured(f"version {request.digest[:12]} is not open on this node: say it later")
        fetching.next_epoch.tell(request.reader, request.files)

    def bring(self, request: Upcoming) -> Passed:
        """Take what will be read next of a version that is whole, into memory. Raises NotYetConfigured."""
        dataset = self._datasets.get(request.uid)
        fetching = dataset.versions.fetchings.get(request.digest) if dataset is not None else None
        if dataset is None or fetching is None:
            raise NotYetConfigured(f"version {request.digest[:12]} is not open on this node: say it later")
        alone = request.alone and dataset.held <= {request.digest}  # versions share files that did not change
        return Passed(self._foreseen.take(request, fetching, dataset.versions.is_open, alone=alone))

    def have(self, request: Have) -> Had:
        """Say what is here of a version. Raises NotYetConfigured."""
        dataset = self._datasets.get(request.uid)
        fetching = dataset.versions.fetchings.get(request.digest) if dataset is not None else None
        if dataset is None or fetching is None:
            raise NotYetConfigured(f"version {request.digest[:12]} is not open on this node: ask again, or another")
        pieces = pack_maps(
            PieceMap(part.path.name, fetching.coming.told(part))
            for part in fetching.version.parts.values()
            if part.kept
        )
        version, came = fetching.version, dataset.telemetry.came
        files, number = zlib.compress(version.whole_files(), 1), version.arrivals.number
        # What readers have fetched here is no progress for which another node would wait.
        choice = version.chosen.digest if dataset.config.eager else NOT_WARMED
        return Had(files, came, pieces, choice, number)

    async def have_more(self, request: Have) -> Had:
        """Say what is here of a version, once that is more than who asks knows, or in a while.

        Raises NotYetConfigured.
        """
        dataset = self._datasets.get(request.uid)
        if dataset is not None and (fetching := dataset.versions.fetchings.get(request.digest)) is not None:
            await fetching.version.arrivals.past(request.after, _UNTIL_MORE)
        return self.have(request)

    async def reach(self, request: Reach) -> Reached:
        """Say how much is here of a piece that a source is sending, once it is more than who asks knows."""
        dataset = self._datasets.get(request.uid)
        fetching = dataset.versions.fetchings.get(request.digest) if dataset is not None else None
        if fetching is None:
            return Reached(-1)
        return await fetching.coming.past(request.part, request.piece, request.past)

    async def remove(self, uid: str) -> None:
        """Take a dataset off the disk, known or not; when this returns it is out of sight, and deleted soon.

        Raises InUse.
        """
        dataset = self._datasets.get(uid)
        if dataset is not None:
            delete = await dataset.remove()
            del self._datasets[uid]
            self._context.evictor.remove(uid)
        else:
            delete = self._folders.discard(uid)
        self._delete(delete)

    def _delete(self, delete: Callable[[], None]) -> None:
        task = asyncio.create_task(in_thread(delete))
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def read(self, request: Read) -> ReadDone:
        """Bring bytes onto the disk; return where they are. Raises SidecarError.

        When a folder answers with an error, or a reader does not find a version at all, all folders are looked at
        first, so that datasets leave those that failed.
        """
        dataset = self._datasets.get(request.uid)
        if dataset is None:
            raise NotYetConfigured(f"the fetcher was not told about the dataset {request.uid} yet: ask again")
        dataset.note_reader()
        try:
            if not (request.doubt and request.ino == ROOT_INO):
                return await dataset.read(request)
        except (CacheDiskFailed, DiskFull) as error:
            _log.info("a reader met %s: looking at the cache folders", error.message)
        await self.suspect()
        return await dataset.read(replace(request, doubt=True))

    async def look_after(self) -> None:
        """Look at the folders, leave those that failed and come back to those that are well; scrub what is due.

        To be called every few seconds.
        """
        await self.suspect()
        self._scrubber.start_due()
        self._pinning.start_round(self._datasets)
        for disk in self._folders.disks:
            if disk.trouble != self._troubles.get(disk, ""):
                self._tell(disk)
                self._troubles[disk] = disk.trouble

    async def suspect(self) -> None:
        """Look at all folders now, since one answered with an error, and let datasets leave those that failed.

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

    def progress(self) -> Progress:
        """Return the progress as it is now."""
        now = self._outside.clock()
        states = [
            (dataset, dataset_status(dataset, now, self._pinning.status_of(dataset)))
            for _, dataset in sorted(self._datasets.items())
        ]
        rates = ((row.uid, source_rate(dataset, row)) for dataset, row in states)
        used = sum(dataset.budget.used_bytes for dataset in self._datasets.values())
        available = sum(disk.free() for disk in self._folders.disks if not disk.trouble)
        return Progress(
            datasets=tuple(row.wire() for _, row in states),
            used_bytes=used,
            capacity_bytes=used + available,
            available_bytes=available,
            orphans=self._folders.orphans(self._datasets),
            folders=tuple(folder.wire() for folder in folder_rows(self._folders, self._datasets.values())),
            counts=tuple(row for uid, dataset in sorted(self._datasets.items()) for row in dataset.telemetry.rows(uid)),
            notices=self._notices.last,
            memory=self._pinning.status().wire(),
            cpus=self._cpus,
            origins=tuple(row.wire() for row in self._context.gate.rows()),
            origin_counts=self._context.gate.counts,
            source_rates={uid: rate for uid, rate in rates if rate is not None},
        )

    async def close(self) -> None:
        """Stop; the disk stays as it is."""
        await self._scrubber.close()
        await self._orders.close()
        await self._pinning.close()
        await self._foreseen.close()
        await self._context.pages.close()
        await asyncio.gather(*(dataset.close() for dataset in self._datasets.values()))
        await asyncio.gather(*self._removals)

    def _tell(self, disk: CacheDisk) -> None:
        if disk.trouble:
            self._notices.tell("", Reason.CACHE_DISK_FAILED, disk.trouble)
        else:
            self._notices.tell("", Reason.HEALTHY, f"the cache folder {disk.paths.root} is in service again")


def _disk(spec: FolderSpec, settings: CacheSettings, outside: NodeDependencies) -> CacheDisk:
    floor = settings.memory_floor if spec.memory else settings.floor
    return CacheDisk(CachePaths(Path(spec.path)), floor, outside.clock, spec.memory, outside.space)
