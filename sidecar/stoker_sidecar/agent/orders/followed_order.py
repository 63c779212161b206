"""Follow one order on a node: build it from the manifest, compare it with reads, send windows of it to the fetcher."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from functools import partial

from stoker_api.datasets.dataset import MountMode
from stoker_orders.following import OrderFollower, OrderState
from stoker_orders.job_order import JobOrder
from stoker_orders.sample_map import SampleMap, SamplePiece
from stoker_orders.sampling_plan import EpochStart
from stoker_sidecar.agent.orders.epoch_orders import EpochOrders
from stoker_sidecar.agent.orders.order_groups import OrderGroup, read_samples
from stoker_sidecar.agent.orders.order_rows import OrderView, order_view, unseen_view, window
from stoker_sidecar.agent.orders.pages_ahead import PagesAhead
from stoker_sidecar.agent.orders.reuse_hints import ReuseHintSender
from stoker_sidecar.agent.orders.sent_window import LEAST_WINDOW, SentWindow
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins
from stoker_sidecar.agent.questions.reading.reading import ObservedTree, ReaderBatch
from stoker_sidecar.agent.questions.reading.version_reader import ListNeeded, VersionReader
from stoker_sidecar.errors import FetcherUnavailable, SidecarError
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_hints import PageWindow, PrefetchWindow, ReuseHints
from stoker_sidecar.wire.fetcher_protocol import Failed, Reply

# A report of the next epoch after this share of the current one is the job's progress, not a restart.
_LATE = 0.75


def is_restarted(follower: OrderFollower, before: EpochStart, said: EpochStart) -> bool:
    """Return True if a job's new start ``said`` means that it restarted; ``before`` is its previous start.

    A job also reports each new epoch, and the report may arrive late. Without observed reads, the report decides alone.
    A wrong order stays wrong.
    """
    if follower.state is OrderState.WRONG:
        return False
    if follower.epoch is None or follower.is_searching or not follower.reads:
        return True
    if before.epoch < said.epoch <= follower.epoch:
        return False
    if said.epoch == follower.epoch:
        return before.epoch == said.epoch and abs(said.position - follower.step) > follower.loading.slack
    return said.epoch != follower.epoch + 1 or follower.step < _LATE * follower.loading.steps


log = logging.getLogger(__name__)
Tell = Callable[[PrefetchWindow | ReuseHints | PageWindow], Awaitable[Reply]]
# Search for the readers' position: seconds of computing in one turn, then a pause as a multiple of that turn.
_TURN, _REST = 0.05, 3.0
# Seconds between two restarts that a job reports: each one computes an order.
_SAID_SECONDS = 60.0
# Seconds between two checks for a list that is not on the disk, and between two reads of files after an error.
_AGAIN_SECONDS, _AFTER_ERROR_SECONDS = 1.0, 10.0


class FollowedOrder:
    """Follows the order of one group of pods. Not thread-safe. Call ``work`` repeatedly.

    ``reader`` finds its samples. ``left`` returns the number of samples for which the node has room. ``tell`` sends a
    window to the fetcher and raises FetcherUnavailable. ``plugins``: source of orders that Stoker cannot compute.
    """

    def __init__(
        self,
        group: OrderGroup,
        folders: CacheFolders,
        reader: VersionReader,
        tell: Tell,
        left: Callable[[], int],
        plugins: NodePlugins,
    ) -> None:
        self.group = group
        self.ranks = group.ranks  # the order is for these ranks; other ranks need another FollowedOrder
        self._folders = folders
        self._reader_of_files = reader
        self._tell = tell
        self._left = left
        self._reading: asyncio.Task[SampleMap | ListNeeded] | None = None
        self._found: SampleMap | None = None  # the samples, until a follower takes them
        self._missing: int | None = None  # the inode of the list, where it was not on the disk
        self._not_read_before = 0.0  # in seconds of the monotonic clock
        self._follower: OrderFollower | None = None
        self._trouble = ""
        self._seen = 0.0
        self._told: SentWindow | None = None
        self._epochs = EpochOrders(plugins)
        self._pages = PagesAhead(tell, group.version, self._epochs)
        self._returning = ReuseHintSender(tell, group.version, self._epochs)
        self._paths: dict[int, str] = {}
        self._began_before: EpochStart | None = None  # the job's previous start, after it reported another
        self._not_begun_before = self._not_sought_before = 0.0  # in seconds of the monotonic clock

    @property
    def samples(self) -> int:
        """Samples whose order is in memory."""
        follower = self._follower
        if self._found is not None:
            return len(self._found)
        return len(follower.order.map) if follower is not None and follower.state is not OrderState.WRONG else 0

    @property
    def view(self) -> OrderView:
        """State of the order, for the pod's status."""
        if self._trouble:
            return OrderView(OrderState.WRONG, None, self._trouble)
        if self._follower is None:
            return OrderView(message="the files of the Dataset are being looked at")
        if self._follower.order.map.by_offset and MountMode.FUSE not in self.group.modes:
            view = unseen_view(self._follower.order.plan.start)
        else:
            view = order_view(self._follower, self._paths, in_memory=self._pages.told)
        return replace(view, message=self._epochs.refused) if self._epochs.refused else view

    def regroup(self, group: OrderGroup) -> None:
        """Take the current group. If its reported start differs, remember the previous start."""
        if group.plan.start != self.group.plan.start and self._began_before is None:
            self._began_before = self.group.plan.start
        self.group = group

    def take(self, tree: ObservedTree, batch: ReaderBatch) -> None:
        """Take observed reads of the group."""
        if self._follower is None or self._follower.state is OrderState.WRONG:
            return
        reads, unseen = read_samples(batch, tree.source, by_offset=self._follower.order.map.by_offset)
        self._seen += len(reads) + unseen
        self._follower.saw(reads, unseen)
        if reads:
            self._pages.saw(self._follower, batch.rows[-1].seconds)

    async def work(self) -> bool:
        """Do the next step: find samples, compute an epoch, or update the fetcher. Return True if more work is due now.

        Raises FetcherUnavailable, CacheError and OSError; the caller retries.
        """
        if self._trouble:
            return False
        if self._follower is None:
            return await self._find_samples()
        self._begin_where_it_says(self._follower)
        if self._follower.is_searching:
            return await self._search(self._follower)
        wanted = self._follower.wanted
        if wanted is not None and await self._compute(self._follower, wanted):
            return True
        if wanted is not None and self._follower.epoch is None:
            return False  # a plug-in call is pending; no window is known before
        await self._tell_window()
        return await self._tell_pages(self._follower)

    def give_up(self, why: str) -> None:
        """Stop following the order, for reason ``why``."""
        self._trouble, self._follower, self._found = why, None, None

    async def end(self) -> None:
        """Stop, and clear the window in the fetcher."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = self._found = None
        await self._epochs.end()
        try:
            await self._pages.end()
            await self._returning.end()
            if self._told is not None:
                await self._say(b"")
        except FetcherUnavailable:
            log.debug("the fetcher is gone, and its windows with it")

    async def _find_samples(self) -> bool:
        """Find the samples in a background task. Return True once a follower has them."""
        if self._reading is None:
            paths, now = self._folders.paths(*self.group.version), time.monotonic()
            if paths is None or now < self._not_read_before:
                return False
            self._not_read_before = now + _AGAIN_SECONDS
            if self._missing is not None and not is_there(paths.tree / self.group.plan.files.described_by):
                await self._say(window([SamplePiece(self._missing)]))
                return False
            self._reading = asyncio.create_task(self._read(paths), name="samples")
        return await self._take_samples() if self._reading.done() else False

    async def _take_samples(self) -> bool:
        """Follow the samples of the finished task, or note the error. Return True if they are followed."""
        assert self._reading is not None, "asked for once it is done"
        reading, self._reading = self._reading, None
        try:
            found, self._found = reading.result(), None
            if isinstance(found, ListNeeded):
                self._missing = found.ino
                await self._say(window([SamplePiece(found.ino)]))
                return False
            self._follower, self._began_before = OrderFollower(JobOrder(self.group.plan, found, self.ranks)), None
        except ValueError as error:  # NoSamplesError, or more samples than can be computed
            self.give_up(str(error))
            log.info("the order of pods on version %s is ignored: %s", self.group.version[1][:12], error)
            return False
        except SidecarError:
            self._not_read_before = time.monotonic() + _AFTER_ERROR_SECONDS
            raise
        return True

    async def _read(self, paths: VersionPaths) -> SampleMap | ListNeeded:
        """Find the samples and count them in ``samples`` from then on. Raises the errors of ``VersionReader``."""
        files, left = self.group.plan.files, self._left
        found = await self._reader_of_files.samples(self.group.namespace, paths, files, left)
        self._found = None if isinstance(found, ListNeeded) else found
        return found

    def _begin_where_it_says(self, follower: OrderFollower) -> None:
        """Restart the follower if the job reports another start, because the job itself restarted."""
        before, now = self._began_before, time.monotonic()
        if before is None or now < self._not_begun_before:
            return
        self._began_before = None
        if not is_restarted(follower, before, self.group.plan.start):
            return
        self._not_begun_before = now + _SAID_SECONDS
        self._follower = OrderFollower(JobOrder(self.group.plan, follower.order.map, self.ranks))
        self._told, self._paths = None, {}
        self._pages.begin_anew()

    async def _compute(self, follower: OrderFollower, number: int, *, searching: bool = False) -> bool:
        """Give an epoch's order, if it can be had now."""
        epoch = await self._epochs.epoch(follower.order, number, searching=searching)
        if epoch is not None:
            follower.give(epoch)
        return epoch is not None

    async def _search(self, follower: OrderFollower) -> bool:
        """Search for the readers' position for one turn, on a quarter of a core. Return True if the search is over."""
        began = time.monotonic()
        if began < self._not_sought_before:
            return False
        while (wanted := follower.wanted) is not None and time.monotonic() - began < _TURN:
            if not await self._compute(follower, wanted, searching=True) or not follower.is_searching:
                break
        self._not_sought_before = time.monotonic() + _REST * (time.monotonic() - began)
        return not follower.is_searching

    async def _explain(self) -> None:
        """Find the paths of the first difference, for the status message."""
        difference = self._follower.difference if self._follower is not None else None
        paths = self._folders.paths(*self.group.version)
        if difference is not None and paths is not None and not self._paths:
            look = partial(_paths_of, inodes=(difference.seen, difference.expected))
            try:
                self._paths = await in_thread(self._folders.read, look, paths)
            except SidecarError as error:
                log.debug("the paths of a difference are not known: %s", error)

    async def _tell_window(self) -> None:
        follower, told, now = self._follower, self._told, time.monotonic()
        assert follower is not None, "asked for once there is one"
        if follower.difference is not None and not self._paths:
            await self._explain()
        paths = self._folders.paths(*self.group.version)
        if follower.state is OrderState.WRONG:
            await self._epochs.end()
        if follower.state is OrderState.WRONG or paths is None or is_there(paths.complete):
            if told is not None:
                await self._say(b"")
                self._told = None
            return
        if told is not None and told.move_on() and not told.is_over(now):
            if not await self._say(b"", gone=told.gone):
                self._told = None  # the next call sends the whole window
        elif told is None or told.is_over(now):
            most = LEAST_WINDOW if told is None else told.most_of_next(self._seen, now)
            pieces = window(follower.ahead(), most)
            if await self._say(pieces):
                self._told = SentWindow(follower, pieces, most, self._seen, now)

    async def _tell_pages(self, follower: OrderFollower) -> bool:
        """Send page windows for a complete version, so that the fetcher loads the next pieces into memory.

        For an incomplete version, send reuse hints instead: the version may not fit on the disk.
        """
        paths = self._folders.paths(*self.group.version)
        if follower.state is OrderState.WRONG or paths is None or not is_there(paths.complete):
            await self._pages.end()
            if follower.state is OrderState.WRONG or paths is None:
                await self._returning.end()
            else:
                await self._returning.work(follower, self._reader)
            return False
        await self._returning.end()
        return await self._pages.work(follower, self._reader, alone=self.group.alone)

    @property
    def _reader(self) -> str:
        return "+".join(sorted(self.group.pods))[:200]

    async def _say(self, pieces: bytes, gone: int = 0) -> bool:
        """Send a window. Return False if the fetcher refused it, since the version is not open; the caller resends."""
        uid, digest = self.group.version
        reply = await self._tell(PrefetchWindow(uid, digest, self._reader, pieces, gone))
        return not isinstance(reply, Failed)


def _paths_of(paths: VersionPaths, inodes: tuple[int, ...]) -> dict[int, str]:
    """Return the paths of some files. Blocks. Raises CacheError."""
    with closing(Manifest.open(paths.manifest)) as manifest:
        return {ino: manifest.path(ino) for ino in inodes if manifest.entry(ino) is not None}
