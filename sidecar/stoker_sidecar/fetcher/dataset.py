"""One dataset on this node: brings what is on the disk towards what the NodeCache says.

Two loops, so that neither waits for the other: one lists when asked to, one gets the manifest, drops old versions and
warms. Reads come in beside them and only share the versions.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial

from stoker_api.nodecache import ListingResult, NodeDataset
from stoker_sidecar.errors import CacheDiskFailed, DiskFull, InUse, SidecarError
from stoker_sidecar.fetcher.cached_version import CachedVersion, State
from stoker_sidecar.fetcher.context import NodeContext
from stoker_sidecar.fetcher.core.rates import Speed, TokenBucket
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.surroundings import Surroundings
from stoker_sidecar.fetcher.download.warming import CanonicalOrder, WarmLimits, WarmPass
from stoker_sidecar.fetcher.manifests import list_source
from stoker_sidecar.fetcher.reconcile_loop import ReconcileLoop
from stoker_sidecar.fetcher.space.budget import Stay, Tenancy, Wish
from stoker_sidecar.fetcher.telemetry import Counts
from stoker_sidecar.fetcher.versions import OpenVersions
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import VersionPaths, read_listing
from stoker_sidecar.version.manifest import ROOT_INO
from stoker_sidecar.wire.credentials import Credentials
from stoker_sidecar.wire.fetcher_protocol import (
    AHEAD_BYTES,
    DEMAND_READS,
    FETCH_ERRORS,
    FETCHED_BYTES,
    LISTED_OBJECTS,
    Read,
    ReadDone,
)
from stoker_sidecar.worker.store_handle import SourceHandle

_log = logging.getLogger(__name__)
# Seconds until files that did not fit are tried again (other datasets may have left), and until objects that changed
# or are gone are asked for again (someone may put them back; a new listing is what really helps); what earlier failures left is taken up at once.
_RETRY_UNKEPT = 60.0
_RETRY_LEFT = 0.01
_RETRY_CHANGED = 600.0
# Seconds between two syncs while files arrive: twice what the kernel itself waits, so that it finds little left to write.
_SYNC_EVERY = 60.0


class DatasetCache:
    """``start`` once, then ``configure`` at will, ``read`` at will, ``close`` at last."""

    def __init__(self, node: NodeContext, config: NodeDataset, credentials: Credentials) -> None:
        self.uid = config.uid
        self.config = config
        self.held: frozenset[str] = frozenset()
        self.listing: ListingResult | None = None
        self.speed = Speed(node.clock())
        self.warming: WarmPass | None = None
        self.settled = False
        self.warm_error: SidecarError | None = None
        self._node = node
        self._source = SourceHandle(config.source, credentials, node.open_store, node.fetcher)
        self.counts = Counts()
        self.stay = Stay(lambda: node.folders.home(config.uid).dataset)
        self.versions = OpenVersions(config.uid, node.folders, self._around, lambda: self.config.quota_bytes)
        self.tenancy = Tenancy(node, self.versions, self.stay, lambda: Wish(self.config, self.held))
        self._bucket: TokenBucket | None = None
        self._synced = node.clock()
        name = f"dataset {config.namespace}/{config.name}"
        self.list_loop = ReconcileLoop(f"{name}, listing", self._list_step, node.backoff)
        self.version_loop = ReconcileLoop(name, self._version_step, node.backoff)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to work."""
        self.listing = await in_thread(read_listing, self._node.folders.home(self.uid).dataset)
        await in_thread(self.stay.load)
        for loop in (self.list_loop, self.version_loop):
            self._spawn(loop.run())

    def configure(self, config: NodeDataset, credentials: Credentials, held: frozenset[str]) -> None:
        """Take over a new wish; the same one again changes nothing."""
        if not self._source.serves(config.source, credentials):
            self._spawn(self._retire(self._source))
            self._source = SourceHandle(config.source, credentials, self._node.open_store, self._node.fetcher)
        elif (config, held) == (self.config, self.held):
            return
        if config.bytes_per_second != self.config.bytes_per_second:
            self._bucket = None
        if held or self.held:
            self.stay.use()
        self.config, self.held = config, held
        self.list_loop.poke()
        self.version_loop.poke()

    async def read(self, request: Read) -> ReadDone:
        """Bring bytes of any version that this node has. Raises SidecarError.

        The root's inode stands for the version itself: the answer is where its tree lies.
        """
        self.stay.use()
        self.counts.add(DEMAND_READS)
        try:
            if not (request.doubt and request.ino == ROOT_INO):
                return await self._read(request)
        except (CacheDiskFailed, DiskFull) as error:
            _log.info("a reader met %s: looking at the cache folders", error.message)
        await self._node.house.suspect()
        return await self._read(replace(request, doubt=True))

    async def look(self) -> None:
        """Leave versions whose folder is gone or failed; they start anew in another one, or in the same when it is back."""
        await in_thread(self.stay.save)
        if await self.versions.leave_lost():
            if self.listing is not None and not self.versions.has(self.listing.version):
                self.listing = None  # its manifest is lost: the node that listed lists again
                self.list_loop.poke()
            self.version_loop.poke()
        await self.versions.drop_copies()
        await self._sync_arrivals()

    async def depart(self, digest: str, why: str) -> bool:
        """Drop a version to make room, once its own work allows it; whether it was. It is not when a pod uses it by now."""
        departure = self.tenancy.ask_to_depart(digest, why)
        self.version_loop.poke()
        return await departure.outcome()

    @property
    def current(self) -> CachedVersion | None:
        """The version that new mounts get, once it is open."""
        fetching = self.current_fetching
        return fetching.version if fetching is not None else None

    @property
    def current_fetching(self) -> Fetching | None:
        """Of that version."""
        return self.versions.fetchings.get(self.config.version)

    @property
    def readers(self) -> int:
        """Reads that wait for bytes."""
        return sum(fetching.waiting_readers for fetching in self.versions.fetchings.values())

    @property
    def retained(self) -> tuple[str, ...]:
        """Other versions on this disk."""
        return tuple(sorted(digest for digest in self.versions.fetchings if digest != self.config.version))

    async def close(self) -> None:
        """Stop all work; what is on the disk stays."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.versions.close()
        await self._source.aclose()

    async def remove(self) -> Callable[[], None]:
        """Stop, and take everything from the disk; the result deletes it and may take long. Raises InUse."""
        if self.held:
            raise InUse(f"dataset {self.config.namespace}/{self.config.name} is mounted on this node: unmount it first")
        await self.close()
        return self._node.folders.discard(self.uid)

    async def _list_step(self) -> None:
        wanted = self.config.listing_id
        if wanted and (self.listing is None or self.listing.id != wanted):
            store = await self._source.store()
            home = self._node.folders.home(self.uid).dataset
            counted = partial(self.counts.add, LISTED_OBJECTS)
            self.listing = await list_source(
                store, self.config.source, home, wanted, self.versions.destination, counted
            )
            self.version_loop.poke()

    async def _version_step(self) -> float | None:
        await self.tenancy.depart_if_asked()
        if not self.config.version:
            return None
        fetching = await self._open(self.config.version)
        await self._drop_unused()
        if fetching.version.complete:
            self.warm_error = None
            await in_thread(fetching.version.secure)  # who marked it complete may have been killed before that
            return None
        if not self.tenancy.may_warm(fetching.version):
            return _RETRY_UNKEPT
        return await self._finish_or_warm(fetching)

    async def _finish_or_warm(self, fetching: Fetching) -> float | None:
        version = fetching.version
        if version.missing() < 0 and version.warm_files < version.manifest.info.files:
            version.forget(State.FAILED)
            version.forget(State.UNKEPT)
        delay = await self._warm(fetching) if self.config.eager and not self.config.paused else None
        if version.warm_files == version.manifest.info.files:
            if self.version_loop.error is not None:
                await in_thread(version.sync)  # perhaps that is what failed: before anyone relies on it this time
            await in_thread(version.finish)
            self._node.house.announce()
            self.warm_error = None
            await in_thread(version.secure)
            return None
        return delay

    async def _warm(self, fetching: Fetching) -> float | None:
        """One pass; seconds until the next. Raises the error that stopped it."""
        await self.tenancy.make_room(fetching.version)
        failing = self.version_loop.error is not None
        limits = WarmLimits(
            self._slots, self._limit(), lambda: self.version_loop.poked, self._node.clock, self._node.sleep
        )
        self.warming, self.settled = WarmPass(fetching, CanonicalOrder(fetching.version), limits, failing), False
        try:
            await self.warming.run()
            return self._passed(self.warming, fetching.version)
        finally:
            self.warming = None

    def _passed(self, done: WarmPass, version: CachedVersion) -> float | None:
        self.warm_error = done.error
        if done.error is not None and (done.fatal or done.error.temporary):
            raise done.error
        if done.error is not None:
            return _RETRY_CHANGED
        if version.missing() > 0 or version.count(State.FAILED):  # left over by failures that have passed
            return _RETRY_LEFT
        self.settled = True
        return _RETRY_UNKEPT if version.count(State.UNKEPT) else None

    def _slots(self) -> int:
        return self._node.slots(self.config.uid)

    def _limit(self) -> TokenBucket | None:
        rate = self.config.bytes_per_second
        if rate and self._bucket is None:
            self._bucket = TokenBucket(rate, self._node.clock())
        return self._bucket

    async def _sync_arrivals(self) -> None:
        """So that a power cut costs at most what arrived in the last minute."""
        version, now = self.current, self._node.clock()
        if self.warming is not None and version is not None and now - self._synced >= _SYNC_EVERY:
            self._synced = now
            await in_thread(version.sync)

    async def _read(self, request: Read) -> ReadDone:
        fetching = self.versions.fetchings.get(request.digest) or await self._open(request.digest)
        if request.ino == ROOT_INO:
            return ReadDone("tree", str(fetching.version.paths.tree))
        return await fetching.read(request.ino, request.offset, request.length, doubt=request.doubt)

    async def _open(self, digest: str) -> Fetching:
        """A version that is on this disk, or that this node was given and can get. Raises SidecarError."""
        urls = self.config.manifest_urls if digest == self.config.version else None
        return await self.versions.open(digest, urls)

    def _around(self, paths: VersionPaths) -> Surroundings:
        node = self._node
        disk = node.folders.disk_of(paths)  # once: it is asked about for each file
        return Surroundings(
            sources=lambda: (self._source,),
            pipeline=node.pipeline,
            room=lambda: self.tenancy.room(disk),
            arrived=self._arrived,
            ahead=partial(self.counts.add, AHEAD_BYTES),
            completed=self.version_loop.poke,
            lost=self.version_loop.poke,
            failed=lambda error: self.counts.add(FETCH_ERRORS, label=error.reason),
            transient_folder=lambda: node.folders.transient_folder(paths),
            retry=node.retry,
            transient_limit=node.transient_limit,
            policy=node.policy,
        )

    def _arrived(self, size: int) -> None:
        self.speed.add(size)
        self.counts.add(FETCHED_BYTES, size)

    async def _drop_unused(self) -> None:
        """Delete versions that no one wants or reads."""
        for digest in await in_thread(self.versions.not_wanted, self._wanted()):
            # Asked anew each time: while this waited, a listing may have ended or the plan have changed.
            if digest not in self._wanted():
                await self.versions.drop(digest)
        if len(self.versions.fetchings) == 1:
            next(iter(self.versions.fetchings.values())).version.shared_bytes = 0

    def _wanted(self) -> set[str]:
        listed = {self.listing.version} if self.listing is not None else set()
        return {self.config.version, *self.config.retain, *self.held, self.versions.placed} | listed

    async def _retire(self, source: SourceHandle) -> None:
        """Close a connection when what is in flight over it has landed."""
        await asyncio.gather(*(fetching.drain() for fetching in self.versions.fetchings.values()))
        await source.aclose()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
