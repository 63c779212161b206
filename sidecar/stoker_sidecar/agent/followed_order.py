"""One order that is followed on a node: made from the manifest, held against reads, and told to the fetcher."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from stoker_api.dataset import MountMode
from stoker_orders.following import OrderFollower, OrderState
from stoker_orders.job_order import JobOrder
from stoker_orders.sample_index import NoSamplesError
from stoker_orders.sample_map import SamplePiece
from stoker_orders.sampling_plan import EpochStart
from stoker_sidecar.agent.core.order_groups import OrderGroup, read_samples
from stoker_sidecar.agent.core.order_rows import OrderView, order_view, unseen_view, window
from stoker_sidecar.agent.core.reading import ObservedTree, ReaderBatch
from stoker_sidecar.agent.core.said_starts import begins_anew
from stoker_sidecar.agent.core.told_window import LEAST_WINDOW, ToldWindow
from stoker_sidecar.agent.epoch_orders import EpochOrders
from stoker_sidecar.agent.order_plugins import OrderPlugins
from stoker_sidecar.agent.pages_ahead import PagesAhead
from stoker_sidecar.agent.returning_teller import ReturningTeller
from stoker_sidecar.agent.sample_maps import ListNeeded, paths_of, read_map
from stoker_sidecar.errors import FetcherUnavailable, SidecarError
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.threads import in_thread, to_its_end
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_protocol import Ahead, Failed, Reply, Returning, Upcoming

log = logging.getLogger(__name__)
Tell = Callable[[Ahead | Returning | Upcoming], Awaitable[Reply]]
# While a place is looked for: seconds of computing at once, and times as long as it took that nothing is computed then.
_TURN, _REST = 0.05, 3.0
# Seconds between two places from which a job is followed because it says so: an order is computed for each.
_SAID_SECONDS = 60.0


class FollowedOrder:
    """Follows one group of pods. Not for threads; ``work`` it again and again.

    ``most``: samples that it may have. ``tell`` hands a window to the fetcher, and raises FetcherUnavailable.
    ``plugins``: who is asked for orders that we cannot compute.
    """

    def __init__(self, group: OrderGroup, folders: CacheFolders, tell: Tell, most: int, plugins: OrderPlugins) -> None:
        self.group = group
        self.ranks = group.ranks  # an order is followed for these, and anew for others
        self._folders = folders
        self._tell = tell
        self._most = most
        self._follower: OrderFollower | None = None
        self._trouble = ""
        self._ended = False
        self._seen = 0.0
        self._told: ToldWindow | None = None
        self._epochs = EpochOrders(plugins)
        self._pages = PagesAhead(tell, group.version, self._epochs)
        self._returning = ReturningTeller(tell, group.version, self._epochs)
        self._paths: dict[int, str] = {}
        self._began_before: EpochStart | None = None  # where the job said that it began, when it says another place
        self._not_begun_before = self._not_sought_before = 0.0  # in seconds of the monotonic clock

    @property
    def samples(self) -> int:
        """Samples whose order is in memory."""
        follower = self._follower
        return len(follower.order.map) if follower is not None and follower.state is not OrderState.WRONG else 0

    @property
    def view(self) -> OrderView:
        """What is known of it."""
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
        """Take the group as it is now, which may say that it begins elsewhere than it did before."""
        if group.plan.start != self.group.plan.start and self._began_before is None:
            self._began_before = self.group.plan.start
        self.group = group

    def take(self, tree: ObservedTree, batch: ReaderBatch) -> None:
        """Take what the group was seen to read."""
        if self._follower is None or self._follower.state is OrderState.WRONG:
            return
        reads, unseen = read_samples(batch, tree.source, by_offset=self._follower.order.map.by_offset)
        self._seen += len(reads) + unseen
        self._follower.saw(reads, unseen)
        if reads:
            self._pages.saw(self._follower, batch.rows[-1].seconds)

    async def work(self) -> bool:
        """Do what is next: find the samples, compute an epoch, tell the fetcher; returns whether there is more at once.

        Raises FetcherUnavailable, CacheError and OSError: it is tried again.
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
            return False  # a plug-in is being asked, and nothing can be told before
        await self._tell_window()
        return await self._tell_pages(self._follower)

    def give_up(self, why: str) -> None:
        """Follow it no more."""
        self._trouble, self._follower = why, None

    async def end(self) -> None:
        """Stop, and take the window back."""
        self._ended = True
        await self._epochs.end()
        try:
            await self._pages.end()
            await self._returning.end()
            if self._told is not None:
                await self._say(b"")
        except FetcherUnavailable:
            log.debug("the fetcher is gone, and its windows with it")

    async def _find_samples(self) -> bool:
        paths = self._folders.paths(*self.group.version)
        if paths is None:
            return False
        read = partial(read_map, said=self.group.plan.files, ended=lambda: self._ended)
        try:
            reading = asyncio.ensure_future(asyncio.to_thread(self._folders.go_through, read, paths))
            found = await to_its_end(reading, hurry=self._hurry)
            if isinstance(found, ListNeeded):
                await self._say(window([SamplePiece(found.ino)]))
                return False
            if len(found) > self._most:
                raise NoSamplesError(f"{len(found)} samples are more than the {self._most} that this node has left")
            self._follower, self._began_before = OrderFollower(JobOrder(self.group.plan, found, self.ranks)), None
        except ValueError as error:  # NoSamplesError, or more samples than can be computed
            self._trouble = str(error)
            log.info("the order of pods on version %s is not followed: %s", self.group.version[1][:12], error)
            return False
        return True

    def _hurry(self) -> None:
        self._ended = True

    def _begin_where_it_says(self, follower: OrderFollower) -> None:
        """Follow a job anew that says that it begins elsewhere than where it is followed: it was started once more."""
        before, now = self._began_before, time.monotonic()
        if before is None or now < self._not_begun_before:
            return
        self._began_before = None
        if not begins_anew(follower, before, self.group.plan.start):
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
        """Look for readers for a moment; returns whether they are looked for no more. It takes a quarter of a core."""
        began = time.monotonic()
        if began < self._not_sought_before:
            return False
        while (wanted := follower.wanted) is not None and time.monotonic() - began < _TURN:
            if not await self._compute(follower, wanted, searching=True) or not follower.is_searching:
                break
        self._not_sought_before = time.monotonic() + _REST * (time.monotonic() - began)
        return not follower.is_searching

    async def _explain(self) -> None:
        """Find the paths of the first difference, for people."""
        difference = self._follower.difference if self._follower is not None else None
        paths = self._folders.paths(*self.group.version)
        if difference is not None and paths is not None and not self._paths:
            look = partial(paths_of, inodes=(difference.seen, difference.expected))
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
                self._told = None  # the next look tells all of it
        elif told is None or told.is_over(now):
            most = LEAST_WINDOW if told is None else told.most_of_next(self._seen, now)
            pieces = window(follower.ahead(), most)
            if await self._say(pieces):
                self._told = ToldWindow(follower, pieces, most, self._seen, now)

    async def _tell_pages(self, follower: OrderFollower) -> bool:
        """Have what comes in memory where all of it is on the disk; of what is on its way, pages are there already.

        Of that, the fetcher is told which files come again soon: it may be that not all fit.
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
        """Tell the fetcher; returns whether it took it: a version that is not open yet is told again."""
        uid, digest = self.group.version
        reply = await self._tell(Ahead(uid, digest, self._reader, pieces, gone))
        return not isinstance(reply, Failed)
