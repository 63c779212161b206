"""One dataset on this node: brings what is on the disk towards what the NodeCache says.

Two loops, neither of which waits for the other: one lists, one gets the manifest, drops old versions and warms. Reads
come in beside them and only share the versions.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from math import inf

from stoker_api.node_dataset import NodeDataset
from stoker_api.nodecache import ListingResult
from stoker_api.times import parse_time
from stoker_sidecar.errors import InUse, PathsTakeTooLong, SidecarError, WarmListInvalid
from stoker_sidecar.fetcher.cached_version import CachedVersion, State
from stoker_sidecar.fetcher.choosing import choose
from stoker_sidecar.fetcher.context import DownloadContext, NodeContext
from stoker_sidecar.fetcher.core.givers import Givers
from stoker_sidecar.fetcher.core.lanes import WarmShare
from stoker_sidecar.fetcher.core.rates import TokenBucket
from stoker_sidecar.fetcher.core.version_tuning import DatasetTuning, VersionTuning
from stoker_sidecar.fetcher.dataset_listing import DatasetListing
from stoker_sidecar.fetcher.dataset_loop import DatasetLoop, soonest
from stoker_sidecar.fetcher.dataset_room import DatasetRoom
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.piece_sources import StorePieceSource
from stoker_sidecar.fetcher.download.warm_passes import WarmPasses
from stoker_sidecar.fetcher.download.warming import RETRY_CHANGED, RETRY_LEFT, WarmLimits, WarmPass, warm_order
from stoker_sidecar.fetcher.last_files import LastFiles
from stoker_sidecar.fetcher.mounted_pages import MountedPages
from stoker_sidecar.fetcher.space.budget import SpaceBudget
from stoker_sidecar.fetcher.telemetry import Telemetry
from stoker_sidecar.fetcher.versions import OpenVersions
from stoker_sidecar.fetcher.warm_list import list_content
from stoker_sidecar.fetcher.warmed_pages import WarmingPages
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import ROOT_INO
from stoker_sidecar.wire.credentials import Credentials
from stoker_sidecar.wire.fetcher_protocol import DEMAND_READS, Read, ReadDone

_OF_PATHS = (PathsTakeTooLong, WarmListInvalid)  # errors of what is to be warmed
_RETRY_EVICTED = 60.0  # seconds until what was dropped for others is tried again
_RETRY_OLDER = 5.0  # until an older version that pods wait for is tried again
# Seconds between two syncs while files arrive: twice what the kernel itself waits, so that it finds little left to
# write.
_SYNC_EVERY = 60.0


class DatasetCache:
    """One dataset on this node. ``start`` once, then ``configure`` and ``read`` at will, ``close`` at last."""

    def __init__(self, node: NodeContext, config: NodeDataset, credentials: Credentials) -> None:
        self.uid = config.uid
        self.telemetry = Telemetry(node.outside.clock())
        self.warming: WarmPass | None = None
        self.settled = False
        self.warm_error: SidecarError | None = None
        self.older_errors: dict[str, SidecarError] = {}  # by digest
        self._node = node
        self._bucket: TokenBucket | None = None
        self._passes = WarmPasses(node.outside.meet, node.downloads.peers, allowed=node.downloads.neighbours)
        self._synced = node.outside.clock()
        self._last_files = LastFiles(allowed=node.downloads.last_files)
        name = f"dataset {config.namespace}/{config.name}"
        listing = partial(node.listings.run, config.namespace, self._list_step)
        self.list_loop = DatasetLoop(f"{name}, listing", listing, node.outside.backoff)
        self.version_loop = DatasetLoop(name, self._version_step, node.outside.backoff)
        self._source = StorePieceSource(self._handle(config, credentials), node.outside.fetcher, node.gate)
        self.budget = SpaceBudget(config, node.folders, wake=self.version_loop.poke)
        self._tuning = DatasetTuning()
        poke, givers = self.version_loop.poke, Givers(node.outside.clock)
        context = DownloadContext((self._source,), self.telemetry, node.downloads, poke, givers, self._tuning)
        self.versions = OpenVersions(node.folders, self.budget, context)
        self._listing = DatasetListing(node, config.uid, self._source, self.versions, self.telemetry)
        self._pages = MountedPages(node.pages, self.versions.fetchings, self._tuning, self.telemetry)
        self.warmed_pages = WarmingPages(node.pages, self.telemetry)
        self._room = DatasetRoom(self.budget, self.versions, node.evictor, self.telemetry, lambda: self.config.version)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to work."""
        await self._listing.load()
        await in_thread(self.budget.last_use.load)
        for loop in (self.list_loop, self.version_loop):
            self._spawn(loop.run())

    def configure(self, config: NodeDataset, credentials: Credentials, volumes: Mapping[str, int]) -> None:
        """Take over what is wanted of it now; the same again changes nothing. ``volumes``: how many, by digest."""
        held = self._pages.mounted(volumes)
        if not self._source.handle.serves(config.source, credentials):
            self._spawn(self._retire(self._source.handle))
            self._source.handle = self._handle(config, credentials)
        elif (config, held) == (self.config, self.held):
            return
        if config.bytes_per_second != self.config.bytes_per_second:
            self._bucket = None
        of_others = (config.version, config.warm_paths) != (self.config.version, self.config.warm_paths)
        if of_others and isinstance(self.version_loop.error, _OF_PATHS):
            self.version_loop.error = None
        if held or self.held:
            self.budget.last_use.use()
        if self.warming is not None:
            self.warming.share.priority, self.warming.share.due = config.priority, _due(config)
        self.budget.config, self.budget.held = config, held
        self._listing.want(config.listing_id)
        self.list_loop.poke()
        self.version_loop.poke()

    def tune(self, digest: str, tuning: VersionTuning) -> None:
        """Treat the files of a version so from now on; warm-up begins anew in its order."""
        self._pages.tune(digest, tuning)
        if (fetching := self.versions.fetchings.get(digest)) is not None and not fetching.version.complete:
            fetching.version.forget(State.UNKEPT)
            self.version_loop.poke()

    async def read(self, request: Read) -> ReadDone:
        """Bring bytes of any version that this node has. Raises SidecarError.

        The root's inode stands for the version itself: the answer is where its tree lies.
        """
        fetching = await self.opened(request.digest)
        if request.ino == ROOT_INO:
            return ReadDone("tree", str(fetching.version.paths.tree))
        return await fetching.read(request.ino, request.offset, request.length, doubt=request.doubt)

    async def opened(self, digest: str) -> Fetching:
        """Return a version that this node has, opened where it was not. Raises SidecarError."""
        return self.versions.fetchings.get(digest) or await self._open(digest)

    def note_reader(self) -> None:
        """Take note that a reader asks."""
        self.budget.last_use.use()
        self.telemetry.add(DEMAND_READS)

    async def look(self) -> None:
        """Leave versions whose folder is gone or failed.

        They start anew in another one, or in the same when it is back.
        """
        await in_thread(self.budget.last_use.save)
        if await self.versions.leave_lost():
            if self.listing is not None and not self.versions.has(self.listing.version):
                self._listing.result = None  # its manifest is lost: the node that listed lists again
                self.list_loop.poke()
            self.version_loop.poke()
        await self.versions.drop_copies()
        await self._sync_arrivals()
        if self._last_files.look(self.current_fetching, self.held, self._node.outside.clock()):
            self.version_loop.poke()

    @property
    def config(self) -> NodeDataset:
        """What the operator wants of it."""
        return self.budget.config

    @property
    def listing(self) -> ListingResult | None:
        """What its last listing on this node found."""
        return self._listing.result

    @property
    def held(self) -> frozenset[str]:
        """Digests that pods of this node have mounted."""
        return self.budget.held

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
        return sum(version.waiting_readers for version in self.budget.versions.values())

    @property
    def held_back(self) -> bool:
        """Whether its source is asked for less than it might be, by a share or since it said SlowDown."""
        return self._node.gate.holds_back(self._source.handle.origin)

    @property
    def retained(self) -> tuple[str, ...]:
        """Other versions on this disk; until the current one is open, all that are there."""
        if self.current is None:
            return tuple(self._node.folders.digests(self.uid))
        # After a restart what is kept for others is here and not open. The operator has nodes drop what none speaks of.
        kept = (digest for digest in self.config.retain if self._node.folders.find(self.uid, digest))
        return tuple(sorted({*self.versions.fetchings, *kept} - {self.config.version}))

    @property
    def others(self) -> tuple[str, ...]:
        """Other versions of which is told how much is here: those that it was asked for, and all that are open."""
        asked = (one.version for one in self.config.older)
        return tuple(dict.fromkeys((*asked, *sorted(self.versions.fetchings.keys() - {self.config.version}))))

    async def close(self) -> None:
        """Stop all work; what is on the disk stays."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.versions.close()
        await self._source.retire(self._source.handle)

    async def remove(self) -> Callable[[], None]:
        """Stop, and take everything from the disk; the result deletes it and may take long. Raises InUse."""
        if self.held:
            raise InUse(f"dataset {self.config.namespace}/{self.config.name} is mounted on this node: unmount it first")
        await self.close()
        return self._node.folders.discard(self.uid)

    async def _list_step(self) -> None:
        if await self._listing.bring(self.config):
            self.version_loop.poke()

    async def _version_step(self) -> float | None:
        await self._room.give_if_asked()
        if not self.config.version:
            return None
        older = [await self._try_open(one.version) for one in self.config.older]
        fetching = await self._open(self.config.version)
        self._pages.look()
        await self._drop_unused()
        await self._open_kept()
        # Before the current one: pods wait for just these.
        delays = [await self._try_older(one) for one in older if one is not None]
        delays += [_RETRY_OLDER] if None in older else []
        delays.append(await self._bring(fetching))
        await self.warmed_pages.look(self.config, fetching.version)
        return soonest(*delays)

    async def _bring(self, fetching: Fetching) -> float | None:
        """Go on with a version until it is whole; the seconds until that should be tried again."""
        await choose(fetching.version, self.config.warm_paths, partial(list_content, fetching))
        if fetching.version.complete:
            self._note(fetching, None)
            await self.versions.secure(fetching.version)  # who marked it complete may have been killed before that
            return None
        disk = self.budget.disk_of(fetching.version)
        if not self.budget.may_warm(fetching.version, self._node.evictor.promised(self.budget, disk)):
            return _RETRY_EVICTED
        return await self._finish_or_warm(fetching)

    async def _try_open(self, digest: str) -> Fetching | None:
        """Open an older version; None when that fails, which holds up nothing else."""
        try:
            return await self._open(digest)
        except SidecarError as error:
            self.older_errors[digest] = error
            return None

    async def _open_kept(self) -> None:
        """Open what is kept for others, which after a restart nobody has yet: they want to know how much is here."""
        for digest in self.retained:
            if digest not in self.versions.fetchings:
                await self._try_open(digest)

    async def _try_older(self, fetching: Fetching) -> float | None:
        try:
            return await self._bring(fetching)
        except SidecarError as error:
            self._note(fetching, error)
            return _RETRY_OLDER if error.temporary else RETRY_CHANGED

    def _note(self, fetching: Fetching, error: SidecarError | None) -> None:
        """Remember what fails of a version, or that nothing does."""
        digest = fetching.version.paths.folder.name
        if digest == self.config.version:
            self.warm_error = error
        elif error is None:
            self.older_errors.pop(digest, None)
        else:
            self.older_errors[digest] = error

    async def _finish_or_warm(self, fetching: Fetching) -> float | None:
        version = fetching.version
        await fetching.unkept.make_way()
        fetching.take_up()
        delay = await self._warm(fetching) if not self.config.paused else None
        if not self.config.eager:
            delay = soonest(delay, fetching.unkept.try_again)
        if version.warm_files == version.manifest.info.files:
            if self.version_loop.error is not None:
                # Perhaps that is what failed: before anyone relies on it this time.
                await self.versions.sync(version)
            await in_thread(version.finish)
            version.complete = version.warm_files == version.manifest.info.files
            if not version.complete:  # a file was found damaged or gone meanwhile
                await in_thread(version.unmark)
                return RETRY_LEFT
            self._node.news.set()  # pods wait for their native mount: the agent is told now
            self._note(fetching, None)
            await self.versions.secure(version)
            return None
        return delay

    async def _warm(self, fetching: Fetching) -> float | None:
        """Run one pass; return the seconds until the next. Raises the error that stopped it."""
        eager, in_use = self.config.eager, fetching.version.paths.folder.name in self.held
        wanted = warm_order(fetching.version, fetching.tuning, eager=eager, in_use=in_use)
        order = self._last_files.order(fetching) or wanted
        if order is None:
            return None
        if eager and (short := self.budget.lacks(fetching.version)) > 0:
            await self._room.make(fetching, short)
            if not self.versions.is_open(fetching):
                return RETRY_LEFT  # dropped meanwhile, since another needed its room more
        slots, outside = self._node.slots, self._node.outside
        limits = WarmLimits(self.uid, slots, self._limit(), self.version_loop.poked, outside.clock, outside.sleep)
        failing = self.version_loop.error is not None
        share = WarmShare(self.config.priority, failing=failing, due=_due(self.config))
        self.warming = self._passes.make(fetching, order, limits, share, self.config)
        self.settled &= not (eager and fetching is self.current_fetching)
        slots.warming[self.uid] = share
        try:
            await self.warming.run()
            return self._passed(self.warming, fetching, eager=eager)
        finally:
            self.warming = None
            del slots.warming[self.uid]

    def _passed(self, done: WarmPass, fetching: Fetching, *, eager: bool) -> float | None:
        if eager:
            self._note(fetching, done.error)
        delay = done.until_next(eager=eager)
        if delay is not None or not eager:
            return delay
        if fetching.unkept.waiting and done.made_copies:
            return RETRY_LEFT  # files take the room of the whole while they come, which their copies have left by now
        self.settled |= fetching is self.current_fetching
        return fetching.unkept.try_again

    def _limit(self) -> TokenBucket | None:
        rate = self.config.bytes_per_second
        if rate and self._bucket is None:
            self._bucket = TokenBucket(rate, self._node.outside.clock())
        return self._bucket

    async def _sync_arrivals(self) -> None:
        """So that a power cut costs at most what arrived in the last minute."""
        version, now = self.current, self._node.outside.clock()
        if self.warming is not None and version is not None and now - self._synced >= _SYNC_EVERY:
            self._synced = now
            await self.versions.sync(version)

    async def _open(self, digest: str) -> Fetching:
        """Open a version that is on this disk, or that this node was given and can get. Raises SidecarError."""
        hosts = {older.version: older.manifest_hosts for older in self.config.older}
        hosts[self.config.version] = self.config.manifest_hosts
        fetching = await self.versions.open(digest, hosts.get(digest))
        self._node.news.set()  # what is here of it
        return fetching

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
        older = {one.version for one in self.config.older}
        return {self.config.version, *self.config.retain, *self.held} | older | self.versions.placed | listed

    def _handle(self, config: NodeDataset, credentials: Credentials) -> StoreHandle:
        return StoreHandle(config.source, credentials, self._node.open_store)

    async def _retire(self, handle: StoreHandle) -> None:
        """Close a connection when what is in flight over it has landed."""
        await asyncio.gather(*(fetching.drain() for fetching in self.versions.fetchings.values()))
        await self._source.retire(handle)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _due(config: NodeDataset) -> float:
    """Return when it is to be warm, in seconds since the epoch; infinite where nobody says."""
    return parse_time(config.warm_by) or inf
