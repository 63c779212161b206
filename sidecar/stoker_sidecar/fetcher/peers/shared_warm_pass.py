"""A warming pass of a version that several nodes cache. They divide it and give each other their shares."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial

from stoker_sidecar.fetcher.download.policy import DownloadKey
from stoker_sidecar.fetcher.download.warming import WarmPass
from stoker_sidecar.fetcher.ondisk.choosing import PeekableOrder, last_to_warm
from stoker_sidecar.fetcher.ondisk.parts import CHUNK, is_whole
from stoker_sidecar.fetcher.peers.core.division import OWN, PIECES, PeerSet, VersionTurns, Wanted, had_by, wanted
from stoker_sidecar.fetcher.peers.core.failed_peer_fetches import ComesFrom
from stoker_sidecar.fetcher.peers.core.source_share import ShareGrowth, side_by_side
from stoker_sidecar.fetcher.peers.for_readers import GiversForReaders
from stoker_sidecar.fetcher.peers.node_division import PATIENCE, Division
from stoker_sidecar.fetcher.peers.peer_client import PeerClient
from stoker_sidecar.fetcher.peers.peer_downloads import PeerDownloads
from stoker_sidecar.fetcher.peers.peer_file_fetcher import PeerFileFetcher
from stoker_sidecar.fetcher.peers.peer_inventories import LOOK, LOOK_FIRST, LOOK_INODES, PeerInventories
from stoker_sidecar.fetcher.peers.peer_requests import PeerRequest, PeerRequestQueue
from stoker_sidecar.fetcher.peers.pieces_left import PeerSharePlan, PiecesLeft, left_of
from stoker_sidecar.version.manifest import Entry

# Seconds that the pass waits for the first inventories, to avoid source requests for files that peers have.
_FIRST_ANSWERS = 1.0
# Requests to all other nodes at a time, and while readers wait.
_GIVEN_AT_ONCE, _BESIDE_READERS = 32, 4
# Requests to look at for one with a free giver. Neighboring requests have the same giver.
_AHEAD = 128
# Limit of a search in the rest of the own share. Above it, requests run at the normal limit.
_MOST_LEFT = 128


@dataclass
class SharedWarmPass(WarmPass):
    """A WarmPass that fetches this node's share from the source, and the rest from its peers as they get it.

    If no peer gets an item within ``PATIENCE``, this node fetches it from the source. For items of other groups it
    waits longer, with no arrivals at all. ``meet`` gives the peers.
    """

    downloads: PeerDownloads = field(kw_only=True)
    division: Division = field(kw_only=True)
    meet: Callable[[], AbstractAsyncContextManager[PeerClient | None]] = field(kw_only=True)
    _having: PeerInventories = field(init=False)
    _asked: PeerFileFetcher = field(init=False)
    _readers: GiversForReaders = field(init=False)
    _turns: VersionTurns = field(init=False)
    _growth: ShareGrowth = field(init=False)
    _sharers: PeerSet = field(init=False)  # of files
    _pieces: PiecesLeft = field(init=False)
    _helps: bool = False  # the search for pieces to help with is done
    _alive: Collection[str] = ()  # peers that make progress, by host:port
    _fetching: "dict[asyncio.Task[None], DownloadKey]" = field(default_factory=dict)  # pieces of this node's share
    _others: PeerSharePlan = field(init=False)
    _landed_at: float = field(init=False)
    _upcoming: PeekableOrder = field(init=False)
    _last_left: int = -1  # an inode to warm that was missing at the last check
    _news: asyncio.Event = field(default_factory=asyncio.Event)  # for items from peers
    _own_pieces: PeerRequestQueue = field(default_factory=PeerRequestQueue)
    _given: PeerRequestQueue = field(default_factory=PeerRequestQueue)
    _given_pieces: PeerRequestQueue = field(default_factory=PeerRequestQueue)

    async def run(self) -> None:
        """Fetch: see WarmPass."""
        if not self._left():
            return
        version, clock, givers = self.fetching.version, self.limits.clock, self.fetching.context.givers
        self._landed_at = clock()
        self._others = PeerSharePlan(self.division, clock)
        givers.begin()
        self._growth = ShareGrowth(self.division.share, PATIENCE)
        self._turns = await self.division.prepare(version, self.fetching.tuning, self._growth.share)
        async with self.meet() as met:
            self._having = PeerInventories(self.division, self.limits, givers, met, len(self._turns.files))
            self._asked = PeerFileFetcher(self.fetching, self.downloads, self._having, clock, self._given_ended)
            self._readers = GiversForReaders(self._having, self.downloads, version.manifest.path_of, clock)
            self.fetching.downloads.bring_for_reader = self._readers.bring
            others = self.division.asked
            looking = [asyncio.create_task(self._having.ask_once(peer)) for peer in others]
            try:
                await asyncio.wait(looking, timeout=_FIRST_ANSWERS)
                self._weigh()
                on = [asyncio.create_task(self._having.ask_on(peer)) for peer in others]
                looking += (on := [*on, asyncio.create_task(self._weigh_on())])
                await self._fetch(on)
            finally:
                self.fetching.downloads.bring_for_reader = None
                for task in looking:
                    task.cancel()
                await asyncio.wait(looking)

    async def _fetch(self, looking: "Collection[asyncio.Task[None]]") -> None:
        """Fetch the own share and take items from peers in parallel, each at its own pace."""
        given = asyncio.create_task(self._take_given())
        beside = (*looking, given)
        for task in beside:
            task.add_done_callback(lambda _: self._landed.set())
        try:
            while not self._over() and self._left() and not any(task.done() for task in beside):
                self._landed.clear()
                if await self._begin_own() | await self._begin_own_piece():
                    await asyncio.sleep(0)
                else:
                    await self._landed.wait()
        finally:
            given.cancel()
            await asyncio.wait([given])
        await self._until(self._idle)
        for task in beside:
            if task.done() and not task.cancelled():
                task.result()

    def _left(self) -> bool:
        """Return True if a file that is to be warmed is missing.

        The last such file is remembered, because it comes late. A new search takes a millisecond for a million files.
        """
        version = self.fetching.version
        if version.chosen.selection is None:
            return version.states.missing() > 0
        if self._last_left < 0 or not version.states.is_missing(self._last_left):
            self._last_left = last_to_warm(version)
        return self._last_left > 0

    async def _take_given(self) -> None:
        while True:
            self._news.clear()
            begun = await self._begin_given(self._given)
            # Take at most as many pieces from peers as come from the source, while any do. More would take the
            # bandwidth that this node needs to give to its peers.
            begun |= await self._begin_given(self._given_pieces, len(self._fetching))
            if begun:
                await asyncio.sleep(0)
            else:
                await self._news.wait()

    def _idle(self) -> bool:
        return super()._idle() and len(self._asked) == 0

    async def _begin_own(self) -> bool:
        if not self._may_begin_own():
            return False
        entry = next(self._upcoming, None)
        if entry is not None and (is_whole(entry.size) or self.fetching.admits(entry)):
            await self._start_all(entry)
        return entry is not None

    async def _begin_own_piece(self) -> bool:
        left = self._own_pieces.left(_MOST_LEFT)
        if len(self._fetching) >= self._side_by_side(left, CHUNK, self._streams()):
            return False
        wish = self._own_pieces.take() or self._help()
        if wish is None:
            return False
        await self._until(lambda: self._over() or self._in_flight < self._streams())
        entry, chunk = wish
        part = self.fetching.version.parts.get(entry.ino)
        came = part is not None and part.kept and not part.complete and part.there[chunk or 0]
        wanted_still = (
            self.fetching.version.states.is_missing(entry.ino) and not self._asked.is_coming(wish.key) and not came
        )
        wanted_still = wanted_still and not self.fetching.is_on_its_way(entry.ino, chunk or 0)
        if not self._over() and wanted_still and self.fetching.admits(entry):
            self.share.bandwidth = self.fetching.tuning.of(entry.ino).bandwidth
            await self._start_piece(entry, chunk or 0)
        return True

    async def _start_piece(self, entry: Entry, chunk: int) -> None:
        task = await self._started(entry, chunk)
        if task is not None:
            self._in_flight += 1
            self.fetching.version.arrivals.came()  # peers learn that it is on its way
            self._fetching[task] = entry.ino, chunk
            task.add_done_callback(self._fetching.pop)
            task.add_done_callback(partial(self._land, entry.ino))

    def _help(self) -> PeerRequest | None:
        """Return a piece that another node has yet to fetch. None: too few are left, or the search was done before."""
        if self._helps or not self._alive:
            return None
        self._helps = True  # until the next weighing
        return self._pieces.yet_to_begin(_MOST_LEFT)

    def _may_begin_own(self) -> bool:
        """Return True if the next file of this node's share may be requested.

        A file that no peer waits for always may.
        """
        following = self._upcoming.following(_MOST_LEFT)
        if not following or self._turns.files[following[0].ino] == OWN:
            return True
        most = self._side_by_side(len(following), following[0].size, self._slots())
        return self._in_flight - len(self._fetching) < most

    def _side_by_side(self, left: int, size: int, most: int) -> int:
        if not self._alive or left >= _MOST_LEFT:
            return most
        return side_by_side(left, size, most)

    async def _begin_given(self, wishes: PeerRequestQueue, most_pieces: int = 0) -> bool:
        """Request the first item whose giver has a free slot."""
        free = self._asked.free(most_pieces) if self._may_ask() else ()
        ahead = wishes.ahead(_AHEAD) if free else []
        for place, wish in enumerate(ahead):
            if not any(having.has(wish.entry.ino, wish.chunk) for having in free):
                continue
            if (giver := self._asked.giver(wish, most_pieces)) is None:
                continue
            together = self._asked.with_others(wish, giver, ahead[place + 1 :]) if giver else []
            for one in together or [wish]:
                wishes.remove(one)
                if giver:
                    await self._keep_rate(one)
            if together:
                self._asked.ask_together(together, giver)
            elif giver:
                self._asked.ask(wish, giver)
            return True
        return False

    def _may_ask(self) -> bool:
        demanded = self._readers.waiting or self.fetching.context.settings.pipeline.lanes.demanded
        return not self._over() and self._asked.taking() < (_BESIDE_READERS if demanded else _GIVEN_AT_ONCE)

    async def _keep_rate(self, wish: PeerRequest) -> None:
        if self.limits.bucket is not None:
            await self._pause(self.limits.bucket.take(wish.span[1], self.limits.clock()))

    def _given_ended(self, came: bool) -> None:
        if came:
            self._landed_at = self.limits.clock()
        self._landed.set()
        self._news.set()

    def _learn(self, ino: int, task: asyncio.Task[None]) -> None:
        super()._learn(ino, task)
        self._landed_at = self.limits.clock()

    async def _weigh_on(self) -> None:
        """Decide again when another node has more, and from time to time. A large version is weighed less often."""
        rest = min(LOOK, max(LOOK_FIRST, LOOK * len(self._turns.files) / LOOK_INODES))
        while True:
            await self.limits.sleep(rest)
            await self._having.until_told(LOOK - rest)
            if self._growth.grows(self._landed_at, self.limits.clock()):
                self._turns = await self.division.prepare(
                    self.fetching.version, self.fetching.tuning, self._growth.share
                )
            self._weigh()

    def _weigh(self) -> None:
        """Assign items to nodes again, by the inventories and the progress of the peers."""
        givers, now, division = self.fetching.context.givers, self.limits.clock(), self.division
        asks = self._asks(givers.may_ask)
        alive = {peer for peer in division.asked if asks(peer) and division.progress.gets_on(peer, now)}
        self._alive, self._helps = alive, False
        self._sharers = division.sharers(self._growth, asks, now)
        of_pieces = division.sharers(self._growth, self._asks(givers.may_ask_pieces), now)
        self._pieces = PiecesLeft(
            self.fetching, self._turns, of_pieces, of_pieces.takes(), alive, self._others, self._asked
        )
        self._decide()
        self._landed.set()
        self._news.set()

    def _asks(self, may_ask: Callable[[str], bool]) -> Callable[[str], bool]:
        return may_ask if self._having.client is not None else lambda _: False

    def _decide(self) -> None:
        """Decide the source of each item. A file that has begun to arrive is fetched here."""
        self._asked.leave_overdue()
        turn_of = bytearray(self._turns.files)
        for ino in self.fetching.version.parts:
            turn_of[ino] = PIECES if turn_of[ino] == PIECES else OWN
        havings = [having.files for having in self._having.by_peer.values()]
        found = self._but_for_failed(turn_of, wanted(bytes(turn_of), self._sharers.takes(), havings))
        self._upcoming = PeekableOrder(self._in_order(found.from_source), self.fetching.version.states.is_missing)
        self._given = PeerRequestQueue(map(PeerRequest, self._from_others(found.from_peers)))
        self._own_pieces = PeerRequestQueue(self._pieces.own())
        self._given_pieces = PeerRequestQueue(self._pieces.given())

    def _but_for_failed(self, turn_of: bytearray, found: Wanted) -> Wanted:
        """Change the decision for files that a node failed to give."""
        source, others = bytearray(found.from_source), bytearray(found.from_peers)
        for ino in self._asked.failed_files():
            where = self._asked.comes_from((ino, None), turn_of[ino], self._sharers)
            source[ino], others[ino] = where is ComesFrom.SOURCE, where is ComesFrom.OTHERS
        return Wanted(bytes(source), bytes(others))

    def _from_others(self, marks: bytes) -> Iterator[Entry]:
        """Yield the files that peers give. Files that only doubted nodes have come last.

        Each node begins at a different position. A file that is missing on one node then comes from a peer.
        """
        doubt = self.fetching.context.givers.doubt
        sure, unsure = had_by(marks, [one.files for peer, one in self._having.by_peer.items() if doubt(peer) == 0])
        yield from self._in_order(sure, self.division.begin)
        yield from self._in_order(unsure, self.division.place)

    def _in_order(self, marks: bytes, begin: float = 0.0) -> Iterator[Entry]:
        """Yield the marked files that are to be warmed, missing and idle; see ``left_of``."""
        busy = self.fetching.busy()
        for entry in left_of(self.fetching, marks, begin):
            if not self._asked.is_coming((entry.ino, None)) and entry.ino not in busy:
                yield entry
