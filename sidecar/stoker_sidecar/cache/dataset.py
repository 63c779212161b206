"""One dataset on this node: brings what is on the disk towards what the NodeCache says.

Two loops, so that neither waits for the other: one lists when asked to, one gets the manifest, drops old versions and
warms. Reads come in beside them and only share the versions.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass

from stoker_api.nodecache import ListingResult, NodeDataset
from stoker_sidecar.cache.disk import Disk
from stoker_sidecar.cache.fetching import Fetching, Surroundings
from stoker_sidecar.cache.layout import DatasetPaths
from stoker_sidecar.cache.listing import list_source, read_listing
from stoker_sidecar.cache.loop import Loop
from stoker_sidecar.cache.manifest_client import fetch_manifest
from stoker_sidecar.cache.source import OpenStore, SourceHandle
from stoker_sidecar.cache.version import State, Version
from stoker_sidecar.cache.warming import Limits, WarmPass
from stoker_sidecar.core.backoff import Backoff
from stoker_sidecar.core.credentials import Credentials
from stoker_sidecar.core.protocol import ReadDone
from stoker_sidecar.core.quota import Room
from stoker_sidecar.core.speed import Speed
from stoker_sidecar.core.token_bucket import TokenBucket
from stoker_sidecar.errors import InUse, NotConfigured, SidecarError
from stoker_sidecar.store.base import ObjectStore
from stoker_sidecar.store.retry import Retry
from stoker_sidecar.threads import in_thread

# Seconds until files that did not fit are tried again (other datasets may have left), and until objects that changed
# or are gone are asked for again (someone may put them back; a new listing is what really helps); what earlier failures left is taken up at once.
_RETRY_UNKEPT = 60.0
_RETRY_LEFT = 0.01
_RETRY_CHANGED = 600.0


@dataclass(frozen=True)
class NodeContext:
    """What all datasets of the node share."""

    disk: Disk
    open_store: OpenStore
    slots: Callable[[str], int]  # uid -> requests for warm-up in flight
    retry: Retry
    backoff: Backoff
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]]
    transient_limit: int


class DatasetCache:
    """``start`` once, then ``configure`` at will, ``read`` at will, ``close`` at last."""

    def __init__(self, paths: DatasetPaths, node: NodeContext, config: NodeDataset, credentials: Credentials) -> None:
        self.paths = paths
        self.config = config
        self.held: frozenset[str] = frozenset()
        self.listing: ListingResult | None = None
        self.speed = Speed(node.clock())
        self.warming: WarmPass | None = None
        self.settled = False
        self.warm_error: SidecarError | None = None
        self._node = node
        self._source = SourceHandle(config.source, credentials, node.open_store)
        self._bucket: TokenBucket | None = None
        self._fetchings: dict[str, Fetching] = {}
        self._opening = asyncio.Lock()
        name = f"dataset {config.namespace}/{config.name}"
        self.list_loop = Loop(f"{name}, listing", self._list_step, node.backoff)
        self.version_loop = Loop(name, self._version_step, node.backoff)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to work."""
        self.listing = await in_thread(read_listing, self.paths)
        for loop in (self.list_loop, self.version_loop):
            self._spawn(loop.run())

    def configure(self, config: NodeDataset, credentials: Credentials, held: frozenset[str]) -> None:
        """Take over a new wish; the same one again changes nothing."""
        if not self._source.serves(config.source, credentials):
            self._spawn(self._retire(self._source))
            self._source = SourceHandle(config.source, credentials, self._node.open_store)
        elif (config, held) == (self.config, self.held):
            return
        if config.bytes_per_second != self.config.bytes_per_second:
            self._bucket = None
        self.config, self.held = config, held
        self.list_loop.poke()
        self.version_loop.poke()

    async def read(self, digest: str, ino: int, offset: int, length: int) -> ReadDone:
        """Bring bytes of any version that this node has. Raises SidecarError."""
        fetching = self._fetchings.get(digest) or await self._open(digest)
        return await fetching.read(ino, offset, length)

    @property
    def current(self) -> Version | None:
        """The version that new mounts get, once it is open."""
        fetching = self._fetchings.get(self.config.version)
        return fetching.version if fetching is not None else None

    @property
    def readers(self) -> int:
        """Reads that wait for bytes."""
        return sum(fetching.waiting_readers for fetching in self._fetchings.values())

    @property
    def used_bytes(self) -> int:
        """Bytes on the disk that count against the quota."""
        return sum(fetching.version.kept_bytes for fetching in self._fetchings.values())

    @property
    def retained(self) -> tuple[str, ...]:
        """Other versions on this disk."""
        return tuple(sorted(digest for digest in self._fetchings if digest != self.config.version))

    async def close(self) -> None:
        """Stop all work; what is on the disk stays."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for fetching in self._fetchings.values():
            await fetching.close()
        self._fetchings.clear()
        await self._source.aclose()

    async def remove(self) -> Callable[[], None]:
        """Stop, and take everything from the disk; the result deletes it and may take long. Raises InUse."""
        if self.held:
            raise InUse(f"dataset {self.config.namespace}/{self.config.name} is mounted on this node: unmount it first")
        await self.close()
        return self._node.disk.discard(self.paths.folder)

    async def _list_step(self) -> None:
        wanted = self.config.listing_id
        if wanted and (self.listing is None or self.listing.id != wanted):
            store = await self._source.store()
            self.listing = await list_source(store, self.config.source, self.paths, wanted)
            self.version_loop.poke()

    async def _version_step(self) -> float | None:
        if not self.config.version:
            return None
        fetching = await self._open(self.config.version)
        await self._drop_unused()
        if fetching.version.complete:
            self.warm_error = None
            return None
        return await self._finish_or_warm(fetching)

    async def _finish_or_warm(self, fetching: Fetching) -> float | None:
        version = fetching.version
        if version.missing() < 0 and version.warm_files < version.manifest.info.files:
            version.forget(State.FAILED)
            version.forget(State.UNKEPT)
        delay = await self._warm(fetching) if self.config.eager and not self.config.paused else None
        if version.warm_files == version.manifest.info.files:
            await in_thread(version.finish)
            self.warm_error = None
            return None
        return delay

    async def _warm(self, fetching: Fetching) -> float | None:
        """One pass; seconds until the next. Raises the error that stopped it."""
        failing = self.version_loop.error is not None
        limits = Limits(self._slots, self._limit(), lambda: self.version_loop.poked, self._node.clock, self._node.sleep)
        self.warming, self.settled = WarmPass(fetching, limits, failing=failing), False
        try:
            await self.warming.run()
            return self._passed(self.warming, fetching.version)
        finally:
            self.warming = None

    def _passed(self, done: WarmPass, version: Version) -> float | None:
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

    async def _open(self, digest: str) -> Fetching:
        """A version that is on this disk, or that this node was given and can get. Raises SidecarError."""
        async with self._opening:
            if digest in self._fetchings:
                return self._fetchings[digest]
            paths = self.paths.version(digest)
            if not paths.manifest.exists():
                if digest != self.config.version:
                    raise NotConfigured(f"this node has no version {digest[:12]} of dataset {self.config.name}")
                await fetch_manifest(self.config.manifest_urls, self.paths, digest)
            if not paths.linked.exists():
                await self._open_donors(digest)
            return await self._load(digest)

    async def _open_donors(self, digest: str) -> None:
        for other in await in_thread(lambda: list(self.paths.digests())):
            if other not in (digest, *self._fetchings) and self.paths.version(other).tree.exists():
                await self._load(other)

    async def _load(self, digest: str) -> Fetching:
        donors = [fetching.version for fetching in self._fetchings.values()]
        version = await in_thread(Version.load, self.paths.version(digest), donors)
        if not donors:
            version.shared_bytes = 0  # the versions that it shared them with are gone
        node = self._node
        around = Surroundings(
            self._store, self.room, self.speed.add, self.version_loop.poke, node.retry, node.transient_limit
        )
        self._fetchings[digest] = Fetching(version, around)
        return self._fetchings[digest]

    async def _store(self) -> ObjectStore:
        return await self._source.store()

    def room(self) -> Room:
        """What this dataset may still put on the disk."""
        reserved = sum(fetching.version.reserved_bytes for fetching in self._fetchings.values())
        return Room(self.used_bytes, self.config.quota_bytes, self._node.disk.free() - reserved)

    async def _drop_unused(self) -> None:
        """Delete versions that no one wants or reads."""
        for digest in await in_thread(lambda: list(self.paths.digests())):
            # Asked anew each time: while this waited, a listing may have ended or the plan have changed.
            if digest not in self._wanted():
                await self._drop(digest)
        if len(self._fetchings) == 1:
            next(iter(self._fetchings.values())).version.shared_bytes = 0

    def _wanted(self) -> set[str]:
        listed = {self.listing.version} if self.listing is not None else set()
        return {self.config.version, *self.config.retain, *self.held} | listed

    async def _drop(self, digest: str) -> None:
        fetching = self._fetchings.pop(digest, None)
        delete = self._node.disk.discard(self.paths.version(digest).folder)
        if fetching is not None:
            await fetching.close()
        await in_thread(delete)

    async def _retire(self, source: SourceHandle) -> None:
        """Close a connection when what is in flight over it has landed."""
        await asyncio.gather(*(fetching.drain() for fetching in self._fetchings.values()))
        await source.aclose()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
