"""Warms the versions of one dataset, a pass at a time, until each is whole or nothing more can be fetched."""

import errno
from functools import partial
from math import inf
from pathlib import Path

from stoker_api.datasets.warm_list import check_list_size
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.times import parse_time
from stoker_sidecar.errors import CacheDiskFailed, SidecarError, WarmListInvalid
from stoker_sidecar.fetcher.datasets.completion_pass import CompletionPass
from stoker_sidecar.fetcher.datasets.dataset_loop import DatasetLoop, soonest
from stoker_sidecar.fetcher.datasets.dataset_room import DatasetRoom
from stoker_sidecar.fetcher.datasets.node_context import NodeContext
from stoker_sidecar.fetcher.datasets.versions import OpenVersions
from stoker_sidecar.fetcher.datasets.wanted_versions import VersionErrors
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.warming import (
    RETRY_CHANGED,
    RETRY_LEFT,
    AccessOrder,
    WarmLimits,
    WarmPass,
    warm_order,
)
from stoker_sidecar.fetcher.ondisk.choosing import choose, left_to_warm
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.peers.core.source_share import SourceShare
from stoker_sidecar.fetcher.peers.node_division import Division
from stoker_sidecar.fetcher.peers.peer_client import Meet
from stoker_sidecar.fetcher.peers.peer_downloads import PeerDownloads
from stoker_sidecar.fetcher.peers.shared_warm_pass import SharedWarmPass
from stoker_sidecar.fetcher.sources.core.bandwidth import TokenBucket
from stoker_sidecar.fetcher.sources.core.lanes import WarmShare
from stoker_sidecar.fetcher.space.budget import SpaceBudget
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.version.packed_copy import read_copy
from stoker_sidecar.wire.fetcher_protocol import ReadDone


class WarmPasses:
    """Makes the warming passes of one dataset. Nodes divide a pass if several are to have the dataset.

    ``meet`` gives the peers, from the files that the agent leaves in ``meeting``; None: no node is asked.
    ``allowed``: False means that no node is asked.
    """

    def __init__(self, meet: Meet, meeting: Path | None, *, allowed: bool = True) -> None:
        self._allowed = allowed
        self._meet = meet
        self._meeting = meeting
        self._division: Division | None = None

    def make(
        self,
        fetching: Fetching,
        downloads: PeerDownloads,
        order: AccessOrder,
        limits: WarmLimits,
        share: WarmShare,
        config: NodeDataset,
    ) -> WarmPass:
        """Make the pass over a version of the dataset ``config``. ``downloads``: from other nodes."""
        digest = fetching.version.paths.folder.name
        others = (config.peers or config.links) if self._allowed else ()
        if not (config.eager and others and digest == config.version and fetching.tuning.divides):
            return WarmPass(fetching, order, limits, share)
        groups, choice = config.groups, fetching.version.chosen.digest
        position, part = min(config.position, len(config.peers)), SourceShare(groups.first, groups.width)
        division = Division(digest, config.peers, position, config.links, part, choice, groups.distances)
        if self._division is None or self._division.who != division.who:
            self._division = division.after(self._division)
        names = dict(zip((*config.peers, *config.links), config.groups.names, strict=False))
        met = partial(self._meet, self._meeting, config.uid, digest, names)
        return SharedWarmPass(fetching, order, limits, share, downloads=downloads, division=self._division, meet=met)


_RETRY_EVICTED = 60.0  # seconds until an evicted dataset is retried
_RETRY_OLDER = 5.0  # seconds until an older version that pods wait for is retried
# Seconds between two syncs while files arrive: twice the interval of the kernel, so that little is left to write.
_SYNC_EVERY = 60.0


class DatasetWarming:
    """The warm-up of one dataset. ``loop``: the loop that calls ``bring``.

    ``settled``: a whole pass over the current version has ended, and nothing more can be fetched now.
    """

    def __init__(
        self,
        node: NodeContext,
        budget: SpaceBudget,
        versions: OpenVersions,
        room: DatasetRoom,
        loop: DatasetLoop,
        errors: VersionErrors,
    ) -> None:
        self.settled = False
        self._node = node
        self._budget = budget
        self._versions = versions
        self._room = room
        self._loop = loop
        self._errors = errors
        self._pass: WarmPass | None = None
        self._bucket: TokenBucket | None = None
        self._passes = WarmPasses(node.outside.meet, node.downloads.peers, allowed=node.downloads.ask_peers)
        self._synced = node.outside.clock()
        self._last_files = CompletionPass(allowed=node.downloads.last_files)

    @property
    def is_running(self) -> bool:
        """Whether a pass runs now."""
        return self._pass is not None

    @property
    def denied(self) -> SidecarError | None:
        """The error of a source that denies one object after the other, while a pass tries further objects."""
        return self._pass.denied if self._pass is not None else None

    @property
    def unreadable(self) -> SidecarError | None:
        """The error of an unreadable object of the current version, while some files are here."""
        fetching, running = self._current, self._pass
        if fetching is None or not fetching.version.here_files or not self._budget.config.eager:
            return None
        now = running.unreadable if running is not None and running.fetching is fetching else None
        return now or fetching.refusals.error

    def configure(self, config: NodeDataset) -> None:
        """Apply the limits of a new desired state. Call it before the budget gets this state."""
        if config.bytes_per_second != self._budget.config.bytes_per_second:
            self._bucket = None
        if self._pass is not None:
            self._pass.share.priority, self._pass.share.due = config.priority, _due(config)

    def last_files_due(self) -> bool:
        """Return True if the last few files of the current version are due."""
        return self._last_files.look(self._current, self._budget.held, self._node.outside.clock())

    async def sync_arrivals(self) -> None:
        """Sync arrivals, so that a power cut costs at most those of the last minute."""
        fetching, now = self._current, self._node.outside.clock()
        if self._pass is not None and fetching is not None and now - self._synced >= _SYNC_EVERY:
            self._synced = now
            try:
                await self._versions.sync(fetching.version)
            except SidecarError:
                self._loop.poke()  # the version was left: the loop opens it again, or says why it cannot

    async def bring_older(self, fetching: Fetching | None) -> float | None:
        """Continue an older version, as ``bring``. An error delays no other version. None: it could not be opened."""
        if fetching is None:
            return _RETRY_OLDER
        try:
            return await self.bring(fetching)
        except SidecarError as error:
            self._errors.note(_digest(fetching), error)
            return _RETRY_OLDER if error.temporary else RETRY_CHANGED

    async def bring(self, fetching: Fetching) -> float | None:
        """Continue a version until it is whole. Return the seconds until a retry. Raises SidecarError."""
        await choose(fetching.version, self._budget.config.warm_paths, partial(list_content, fetching))
        if fetching.version.complete:
            self._errors.note(_digest(fetching), None)
            await self._versions.secure(fetching.version)  # a kill may have come between the mark and the sync
            return None
        disk = self._budget.disk_of(fetching.version)
        if not self._budget.may_warm(fetching.version, self._node.evictor.promised(self._budget, disk)):
            return _RETRY_EVICTED
        return await self._finish_or_warm(fetching)

    @property
    def _current(self) -> Fetching | None:
        return self._versions.fetchings.get(self._budget.config.version)

    async def _finish_or_warm(self, fetching: Fetching) -> float | None:
        version = fetching.version
        await fetching.unkept.evict_files()
        fetching.take_up(self._node.outside.clock())
        delay = await self._warm(fetching) if not self._budget.config.paused else None
        if not self._budget.config.eager:
            delay = soonest(delay, fetching.unkept.try_again)
        return await self._finish(fetching) if version.warm_files == version.manifest.info.files else delay

    async def _finish(self, fetching: Fetching) -> float | None:
        version = fetching.version
        if self._loop.error is not None:
            # This sync may be the one that failed, so repeat it before the version is used.
            await self._versions.sync(version)
        await in_thread(version.finish)
        version.complete = version.warm_files == version.manifest.info.files
        if not version.complete:  # a file was found damaged or gone
            await in_thread(version.unmark)
            return RETRY_LEFT
        self._node.news.set()  # pods wait for their native mount, so the agent is notified now
        self._errors.note(_digest(fetching), None)
        await self._versions.secure(version)
        return None

    async def _warm(self, fetching: Fetching) -> float | None:
        """Run one pass; return the seconds until the next. Raises the error that stopped it."""
        eager, in_use = self._budget.config.eager, _digest(fetching) in self._budget.held
        wanted = warm_order(fetching.version, fetching.tuning, eager=eager, in_use=in_use)
        order = self._last_files.order(fetching) or wanted
        if order is None:
            return None
        if eager and (short := self._budget.lacks(fetching.version)) > 0:
            await self._room.make(fetching, short)
            if not self._versions.is_open(fetching):
                return RETRY_LEFT  # evicted for a dataset that needed its room more
        return await self._run(fetching, order, eager=eager)

    async def _run(self, fetching: Fetching, order: AccessOrder, *, eager: bool) -> float | None:
        config, slots, outside = self._budget.config, self._node.slots, self._node.outside
        limits = WarmLimits(config.uid, slots, self._limit(), self._loop.poked, outside.clock, outside.sleep)
        share = WarmShare(config.priority, failing=self._loop.error is not None, due=_due(config))
        downloads = self._versions.peer_downloads[_digest(fetching)]
        self._pass = self._passes.make(fetching, downloads, order, limits, share, config)
        refused = fetching.refusals.error is not None  # it stays settled while these are tried again
        self.settled &= refused or not (eager and fetching is self._current)
        slots.warming[config.uid] = share
        try:
            await self._pass.run()
            return self._passed(self._pass, fetching, eager=eager)
        finally:
            self._pass = None
            del slots.warming[config.uid]

    def _passed(self, done: WarmPass, fetching: Fetching, *, eager: bool) -> float | None:
        if eager:
            self._errors.note(_digest(fetching), done.error if done.unreadable is None else None)
        if done.error is not None and done.error.temporary:
            fetching.refusals.reset()  # temporary failures must not wait for refused objects
        delay = done.until_next(eager=eager)
        if eager and self._refuses(fetching, done):
            self.settled |= fetching is self._current and not left_to_warm(fetching.version, State.MISSING)
            return fetching.refusals.left(self._node.outside.clock())
        if delay is not None or not eager:
            return delay
        if fetching.unkept.waiting and done.made_copies:
            return RETRY_LEFT  # arriving files reserve their full size, which their compressed copies have freed
        self.settled |= fetching is self._current
        return fetching.unkept.try_again

    def _refuses(self, fetching: Fetching, done: WarmPass) -> bool:
        """Note which objects a pass was refused; return True if nothing but these is left to fetch."""
        refusals = fetching.refusals
        if done.unreadable is not None:
            refusals.note(done.unreadable, self._node.outside.clock())
        elif done.error is not None or not left_to_warm(fetching.version, State.FAILED):
            refusals.reset()
        return refusals.error is not None

    def _limit(self) -> TokenBucket | None:
        rate = self._budget.config.bytes_per_second
        if rate and self._bucket is None:
            self._bucket = TokenBucket(rate, self._node.outside.clock())
        return self._bucket


def _digest(fetching: Fetching) -> str:
    return fetching.version.paths.folder.name


def _due(config: NodeDataset) -> float:
    """Return the deadline of the warm-up, in seconds since the epoch; infinite without one."""
    return parse_time(config.warm_by) or inf


async def list_content(fetching: Fetching, name: str) -> bytes:
    """Return the content of the list of this name. A missing list is fetched with the priority of a read.

    Raises WarmListInvalid if the version has no such list, and SidecarError if the fetch fails.
    """
    entry = _entry(fetching, name)
    if not entry.size:  # empty files are never read from the fetcher
        return b""
    for doubt in (False, True):
        place = await fetching.read(entry.ino, 0, entry.size, doubt=doubt)
        try:
            return await in_thread(_content, place, entry.size)
        except OSError as error:  # gone, or damaged: the next read sets doubt, so that the fetcher checks
            failed = error
    raise CacheDiskFailed(f"warm.list {name!r} cannot be read from the cache disk: {failed.strerror or failed}")


def _entry(fetching: Fetching, name: str) -> Entry:
    """Find the list in the version. Raises WarmListInvalid."""
    entry = fetching.version.manifest.find(name)
    if entry is None:
        raise WarmListInvalid(
            "this version has no such file: put it there, below the Dataset's folder and not left out by include and "
            "exclude, and run `stoker refresh`"
        )
    if entry.is_dir:
        raise WarmListInvalid("it is a folder: name a text file, or the folder itself in warm.paths")
    try:
        check_list_size(entry.size)
    except ValueError as error:
        raise WarmListInvalid(str(error)) from error
    return entry


def _content(place: ReadDone, size: int) -> bytes:
    """Read a whole file at the fetcher's place for it. Blocks. Raises OSError."""
    path = Path(place.file)
    found = read_copy(path, size) if place.place == "packed" else path.read_bytes()
    if len(found) != size:
        raise OSError(errno.EIO, "it has the wrong size")
    return found
