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

from stoker_api.datasets.origin import OriginShare
from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_sidecar.errors import CacheDiskFailed, DiskFull, NotYetConfigured, ProtocolError
from stoker_sidecar.fetcher.datasets.dataset import DatasetCache
from stoker_sidecar.fetcher.datasets.node_context import ListingSlots, NodeContext, NodeDependencies
from stoker_sidecar.fetcher.download.context import DownloadSettings
from stoker_sidecar.fetcher.download.core.reader_patience import PATIENCE
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.node.known_orders import KnownOrders
from stoker_sidecar.fetcher.node.pinning import Pinning, PinSettings
from stoker_sidecar.fetcher.node.scrub import Scrubber, ScrubSettings
from stoker_sidecar.fetcher.node.status import dataset_status, folder_rows, source_rate
from stoker_sidecar.fetcher.ondisk.parts import PartFile
from stoker_sidecar.fetcher.ondisk.piece_maps import PieceMap, pack_maps
from stoker_sidecar.fetcher.ondisk.recovery.repairs import Repairs
from stoker_sidecar.fetcher.ondisk.telemetry import Notices
from stoker_sidecar.fetcher.ondisk.version_tuning import VersionTuning
from stoker_sidecar.fetcher.pages.page_cache import PageCache
from stoker_sidecar.fetcher.pages.page_prefetch import PagePrefetcher
from stoker_sidecar.fetcher.peers.core.division import piece_marks
from stoker_sidecar.fetcher.sources.core.lanes import Bounds, WarmSlots
from stoker_sidecar.fetcher.sources.origin_gate import OriginGate
from stoker_sidecar.fetcher.sources.pipeline import Pipeline
from stoker_sidecar.fetcher.space.budget import Evictor
from stoker_sidecar.fetcher.space.cache_disk import CacheDisk
from stoker_sidecar.fetcher.space.folders import CacheDisks
from stoker_sidecar.store.base import Retry
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.opening import open_store
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import CachePaths, check_uid
from stoker_sidecar.version.manifest import ROOT_INO
from stoker_sidecar.wire.config.disk_floor import DiskFloor, Floor
from stoker_sidecar.wire.config.folders import FolderSpec
from stoker_sidecar.wire.dataset_texts import with_short_texts
from stoker_sidecar.wire.fetcher_hints import PageWindow, PrefetchWindow, ReuseHints, Tune
from stoker_sidecar.wire.fetcher_protocol import (
    NOT_WARMED,
    Configure,
    Inventory,
    InventoryQuery,
    Progress,
    Read,
    ReadDone,
    ReaderPosition,
    Shares,
)

_log = logging.getLogger(__name__)

# Seconds after which a peer's inventory query is answered without news. The answer shows that this node is up.
_UNTIL_MORE = 2.0
_MOST_TEXTS = 300_000  # characters of all Datasets' sentences; the agent's status has room for half of them
_MEMORY_FLOOR = DiskFloor(Floor(share=0.05), Floor())


@dataclass(frozen=True)
class CacheSettings:
    """Settings of the cache: its folders, the preferred one first, and the space to leave free on their disks.

    ``memory_floor``: of folders in memory, which no kubelet watches.
    """

    folders: tuple[FolderSpec, ...]
    floor: DiskFloor = field(default_factory=DiskFloor)
    memory_floor: DiskFloor = _MEMORY_FLOOR
    transient_limit: int = 256 * 1024**2  # bytes of files read through and not kept, per version: 32 chunks of 8 MiB
    scrub: ScrubSettings = field(default_factory=ScrubSettings)
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)
    bounds: Bounds = field(default_factory=Bounds)
    peers: Path | None = None  # the folder in which the agent leaves this node's peer certificate
    ask_peers: bool = True  # they are asked for files
    last_files: bool = True  # of a mounted version that lacks little they are fetched unasked
    pinning: PinSettings = field(default_factory=PinSettings)
    cpus: str = ""  # the CPUs of this process, for people
    patience: float = PATIENCE  # seconds that a reader waits for a source that fails for now


class CacheNode:
    """All datasets of this node and the folders that they lie in. ``open`` first, ``close`` last."""

    def __init__(self, settings: CacheSettings, outside: NodeDependencies | None = None) -> None:
        self._outside = outside = outside or NodeDependencies()
        self._folders = CacheDisks([_disk(spec, settings, outside) for spec in settings.folders], outside.clock)
        self._notices = Notices()
        self._datasets: dict[str, DatasetCache] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self.news = asyncio.Event()  # set when ``progress`` must be reported at once
        self._looking = asyncio.Lock()
        self._looks = 0  # that have begun
        self._troubles: dict[CacheDisk, str] = {}
        self.repairs = Repairs()
        self._context = self._share(settings, outside)
        self._orders = KnownOrders(self._context.downloads.pipeline.limit)
        self._cpus = settings.cpus
        self._pinning = Pinning(settings.pinning, outside.memory, outside.clock)
        self._foreseen = PagePrefetcher(self._context.pages, outside.memory)
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
                settings.transient_limit,
                settings.peers,
                ask_peers=settings.ask_peers,
                last_files=settings.last_files,
                patience=settings.patience,
                now=outside.now,
            ),
            news=self.news,
            pages=PageCache(outside.memory),
            gate=OriginGate(outside.clock, outside.now),
            repairs=self.repairs,
        )

    async def open(self) -> None:
        """Prepare the folders. Raises CacheDiskFailed when none of them can be used."""
        await in_thread(self._folders.open)
        for disk in self._folders.serving:
            self._delete(disk.empty_trash)

    async def configure(self, request: Configure) -> None:
        """Add or change a dataset. Raises ProtocolError if it does not parse."""
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
        """Set this node's shares of object stores. Raises ProtocolError if they do not parse."""
        try:
            shares = [OriginShare.model_validate(row) for row in request.rows]
        except ValidationError as error:
            raise ProtocolError(f"the shares of origins do not parse: {error}") from error
        self._context.gate.set_shares(shares)

    def tune(self, request: Tune) -> None:
        """Set the tuning of a version's files. Raises NotYetConfigured and ProtocolError."""
        if (dataset := self._datasets.get(request.uid)) is None:
            raise NotYetConfigured(f"the fetcher does not know the dataset {request.uid} yet: tune it later")
        dataset.tune(request.digest, VersionTuning(request.knobs, request.groups))

    def prefetch(self, request: PrefetchWindow) -> None:
        """Set the next reads of a version. Raises NotYetConfigured."""
        self._orders.take(request, *self._opened(request.uid, request.digest))

    def set_reuse_hints(self, request: ReuseHints) -> None:
        """Set the files of a version that are read again soon. Raises NotYetConfigured and ProtocolError."""
        _, fetching = self._opened(request.uid, request.digest)
        fetching.next_epoch.tell(request.reader, request.files)

    def bring(self, request: PageWindow) -> ReaderPosition:
        """Prefetch the next reads of a whole version into memory. Raises NotYetConfigured."""
        dataset, fetching = self._opened(request.uid, request.digest)
        alone = request.alone and dataset.held <= {request.digest}  # versions share files that did not change
        return ReaderPosition(self._foreseen.take(request, fetching, dataset.versions.is_open, alone=alone))

    def have(self, request: InventoryQuery) -> Inventory:
        """Return the inventory of a version. Raises NotYetConfigured."""
        dataset, fetching = self._opened(request.uid, request.digest, "ask again, or another")
        pieces = pack_maps(_piece_map(part, fetching) for part in fetching.version.parts.values() if part.kept)
        version, came = fetching.version, dataset.telemetry.came
        files, number = zlib.compress(version.states.whole_files(), 1), version.arrivals.number
        # Files that only readers fetch are no progress that a peer should wait for.
        choice = version.chosen.digest if dataset.config.eager else NOT_WARMED
        return Inventory(files, came, pieces, choice, number)

    def _opened(self, uid: str, digest: str, then: str = "say it later") -> tuple[DatasetCache, Fetching]:
        """Return an open version with its dataset. Raises NotYetConfigured. ``then``: advice to the sender."""
        dataset = self._datasets.get(uid)
        fetching = dataset.versions.fetchings.get(digest) if dataset is not None else None
        if dataset is None or fetching is None:
            raise NotYetConfigured(f"version {digest[:12]} is not open on this node: {then}")
        return dataset, fetching

    async def have_more(self, request: InventoryQuery) -> Inventory:
        """Return the inventory of a version once it has more than the request knows, or after a while.

        Raises NotYetConfigured.
        """
        dataset = self._datasets.get(request.uid)
        if dataset is not None and (fetching := dataset.versions.fetchings.get(request.digest)) is not None:
            await fetching.version.arrivals.past(request.after, _UNTIL_MORE)
        return self.have(request)

    async def remove(self, uid: str) -> None:
        """Remove a dataset from the disk, known or not. It is hidden when this returns, and deleted soon after.

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

    def name_of(self, uid: str) -> str:
        """Return NAMESPACE/NAME of a dataset for people; empty for an unknown one."""
        dataset = self._datasets.get(uid)
        return f"{dataset.config.namespace}/{dataset.config.name}" if dataset is not None else ""

    async def read(self, request: Read) -> ReadDone:
        """Bring bytes onto the disk. Return their place. Raises SidecarError.

        If a folder returns an error, or a reader misses a whole version, all folders are checked first, so that
        datasets leave the failed ones.
        """
        dataset = self._datasets.get(request.uid)
        if dataset is None:
            raise NotYetConfigured(f"the fetcher does not know the dataset {request.uid} yet: ask again")
        dataset.note_reader()
        try:
            if not (request.doubt and request.ino == ROOT_INO):
                return await dataset.read(request)
        except (CacheDiskFailed, DiskFull) as error:
            _log.info("a reader met %s: looking at the cache folders", error.message)
        await self.suspect()
        return await dataset.read(replace(request, doubt=True))

    async def look_after(self) -> None:
        """Check the folders, leave failed ones and return to healthy ones. Scrub due versions.

        Call it every few seconds.
        """
        await self.suspect()
        self._scrubber.start_due()
        self._pinning.start_round(self._datasets)
        for disk in self._folders.disks:
            if disk.trouble != self._troubles.get(disk, ""):
                self._tell(disk)
                self._troubles[disk] = disk.trouble

    async def suspect(self) -> None:
        """Check all folders now, since one answered with an error, and let datasets leave those that failed.

        Concurrent callers share one check.
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
        """Return the current progress."""
        now = self._outside.clock()
        states = [
            (dataset, dataset_status(dataset, now, self._pinning.status_of(dataset)))
            for _, dataset in sorted(self._datasets.items())
        ]
        rates = ((row.uid, source_rate(dataset, row)) for dataset, row in states)
        used = sum(dataset.budget.used_bytes for dataset in self._datasets.values())
        available = sum(disk.free() for disk in self._folders.disks if not disk.trouble)
        rows = with_short_texts([row for _, row in states], _MOST_TEXTS)
        return Progress(
            datasets=tuple(row.wire() for row in rows),
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
        """Stop. The disk stays unchanged."""
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


def _piece_map(part: PartFile, fetching: Fetching) -> PieceMap:
    coming = (chunk for ino, chunk in fetching.under_way if ino == part.ino)
    return PieceMap(part.path.name, piece_marks(part.chunks, part.held, coming))


def _disk(spec: FolderSpec, settings: CacheSettings, outside: NodeDependencies) -> CacheDisk:
    floor = settings.memory_floor if spec.memory else settings.floor
    return CacheDisk(CachePaths(Path(spec.path)), floor, outside.clock, spec.memory, outside.space)
