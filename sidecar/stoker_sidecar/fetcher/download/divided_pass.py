"""A pass of warming of a version that several nodes are to have: they divide it, and give each other their shares."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial

from stoker_sidecar.fetcher.choosing import last_to_warm
from stoker_sidecar.fetcher.core.division import OWN, PIECES, Sharers, VersionTurns, Wanted, had_by, wanted
from stoker_sidecar.fetcher.core.failed_gifts import ComesFrom
from stoker_sidecar.fetcher.core.source_pace import side_by_side
from stoker_sidecar.fetcher.core.source_share import ShareGrowth
from stoker_sidecar.fetcher.download.for_readers import GiversForReaders
from stoker_sidecar.fetcher.download.given_copies import GivenCopies
from stoker_sidecar.fetcher.download.left_order import left_of
from stoker_sidecar.fetcher.download.neighbours import Neighbours
from stoker_sidecar.fetcher.download.node_division import PATIENCE, Division
from stoker_sidecar.fetcher.download.others_having import LOOK, LOOK_FIRST, LOOK_INODES, OthersHaving
from stoker_sidecar.fetcher.download.others_shares import OthersShares
from stoker_sidecar.fetcher.download.parts import CHUNK, is_whole
from stoker_sidecar.fetcher.download.pieces_left import PiecesLeft
from stoker_sidecar.fetcher.download.policy import DownloadKey
from stoker_sidecar.fetcher.download.relays import Relays
from stoker_sidecar.fetcher.download.warming import WarmPass
from stoker_sidecar.fetcher.download.wishes import Wish, Wishes
from stoker_sidecar.version.manifest import Entry

# Seconds for which the first answers are waited for: what another node has is not to be asked of the source.
_FIRST_ANSWERS = 1.0
# Requests to all other nodes at a time, and while readers wait.
_GIVEN_AT_ONCE, _BESIDE_READERS = 32, 4
# Of so many that others have the first one is asked for whose giver is free: neighbouring ones have the same giver.
_AHEAD = 128
# What is looked for of the own share that is left; of more, all that may be is asked for at a time.
_MOST_LEFT = 128


@dataclass
class DividedPass(WarmPass):
    """A WarmPass that fetches this node's share from the source, and the others' from them, as they have it.

    What nobody else has for ``PATIENCE`` is fetched from the source as well; what other groups are to fetch, after more
    than that in which nothing came. ``meet`` gives the neighbours.
    """

    division: Division = field(kw_only=True)
    meet: Callable[[], AbstractAsyncContextManager[Neighbours | None]] = field(kw_only=True)
    _having: OthersHaving = field(init=False)
    _asked: GivenCopies = field(init=False)
    _relays: Relays = field(init=False)
    _readers: GiversForReaders = field(init=False)
    _turns: VersionTurns = field(init=False)
    _growth: ShareGrowth = field(init=False)
    _sharers: Sharers = field(init=False)  # of files
    _pieces: PiecesLeft = field(init=False)
    _helps: bool = False  # it was looked for what another node has yet to fetch
    _alive: Collection[str] = ()  # the others that get on, by host:port
    _fetching: "dict[asyncio.Task[None], DownloadKey]" = field(default_factory=dict)  # pieces of this node's share
    _others: OthersShares = field(init=False)
    _landed_at: float = field(init=False)
    _last_left: int = -1  # an inode that is to be warmed, and was missing when that was looked at last
    _news: asyncio.Event = field(default_factory=asyncio.Event)  # for what others give
    _own_pieces: Wishes = field(default_factory=Wishes)
    _given: Wishes = field(default_factory=Wishes)
    _given_pieces: Wishes = field(default_factory=Wishes)

    async def run(self) -> None:
        """Fetch: see WarmPass."""
        if not self._left():
            return
        version, clock, givers = self.fetching.version, self.limits.clock, self.fetching.context.givers
        self._landed_at = clock()
        self._others = OthersShares(self.division, clock)
        givers.begin()
        self._growth = ShareGrowth(self.division.share, PATIENCE)
        self._turns = await self.division.prepare(version, self.fetching.tuning, self._growth.share)
        async with self.meet() as met:
            self._having = OthersHaving(self.division, self.limits, givers, met, len(self._turns.files))
            self._asked = GivenCopies(self.fetching, self._having, clock, self._given_ended)
            self._relays = Relays(self._asked)
            self._readers = GiversForReaders(self._having, self.fetching.from_others, version.manifest.path_of, clock)
            self.fetching.bring_for_reader = self._readers.bring
            others = self.division.asked
            looking = [asyncio.create_task(self._having.ask_once(peer)) for peer in others]
            try:
                await asyncio.wait(looking, timeout=_FIRST_ANSWERS)
                self._weigh()
                on = [asyncio.create_task(self._having.ask_on(peer)) for peer in others]
                looking += (on := [*on, asyncio.create_task(self._weigh_on())])
                await self._fetch(on)
            finally:
                self.fetching.bring_for_reader = None
                for task in looking:
                    task.cancel()
                await asyncio.wait(looking)
                await self._end_runs()

    async def _fetch(self, looking: "Collection[asyncio.Task[None]]") -> None:
        """Fetch the own share and take what others have side by side: neither waits for the pace of the other."""
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
        """Tell whether a file that is to be warmed is missing.

        The last one is remembered: it comes late, and to look for another one takes a millisecond for a million files.
        """
        version = self.fetching.version
        if version.chosen.selection is None:
            return version.missing() > 0
        if self._last_left < 0 or not version.is_missing(self._last_left):
            self._last_left = last_to_warm(version)
        return self._last_left > 0

    async def _take_given(self) -> None:
        while True:
            self._news.clear()
            begun = await self._begin_given(self._given)
            # Of pieces no more than come from the source, while any do: else what is given would take this node's line
            # from what it is to give the others.
            begun |= await self._begin_given(self._given_pieces, len(self._fetching))
            if begun | await self._begin_relay():
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
        wanted_still = self.fetching.version.is_missing(entry.ino) and not self._asked.is_coming(wish.key) and not came
        wanted_still = wanted_still and not self.fetching.is_on_its_way(entry.ino, chunk or 0)
        if not self._over() and wanted_still and self.fetching.admits(entry):
            self.share.bandwidth = self.fetching.tuning.of(entry.ino).bandwidth
            await self._start_piece(entry, chunk or 0)
        return True

    async def _start_piece(self, entry: Entry, chunk: int) -> None:
        task = await self._started(entry, chunk, 1)
        if task is not None:
            self._in_flight += 1
            self.fetching.version.arrivals.came()  # the others are told that it is on its way
            self._fetching[task] = entry.ino, chunk
            task.add_done_callback(self._fetching.pop)
            task.add_done_callback(partial(self._land, entry.ino))

    def _help(self) -> Wish | None:
        """Return a piece that another node has yet to fetch; None: there are too few, or it was looked for before."""
        if self._helps or not self._alive:
            return None
        self._helps = True  # until what the others say is weighed anew
        return self._pieces.yet_to_begin(_MOST_LEFT)

    def _may_begin_own(self) -> bool:
        """Tell whether the next file of this node's share may be asked for; one that nobody waits for always may."""
        following = self._upcoming.following(_MOST_LEFT)
        if not following or self._turns.files[following[0].ino] == OWN:
            return True
        most = self._side_by_side(len(following), following[0].size, self._slots())
        return self._in_flight - len(self._fetching) < most

    def _side_by_side(self, left: int, size: int, most: int) -> int:
        if not self._alive or left >= _MOST_LEFT:
            return most
        return side_by_side(left, size, most)

    async def _begin_given(self, wishes: Wishes, most_pieces: int = 0) -> bool:
        """Have another node give the first wish of those that somebody has who gives no more than it may yet."""
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

    async def _begin_relay(self) -> bool:
        """Have a piece come from a node to which its source still sends it."""
        found = self._relays.next(self._pieces, self._fetching.values()) if self._may_ask() else None
        if found is None:
            return False
        await self._keep_rate(found.wish)
        self._asked.ask(found.wish, found.giver, partial(self._relays.ended, found.giver), passing=found.passing)
        return True

    def _may_ask(self) -> bool:
        demanded = self._readers.waiting or self.fetching.context.settings.pipeline.lanes.demanded
        return not self._over() and self._asked.taking() < (_BESIDE_READERS if demanded else _GIVEN_AT_ONCE)

    async def _keep_rate(self, wish: Wish) -> None:
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
        """Decide anew when another node has more, and now and then; of a large version not as often."""
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
        """Decide anew what is whose, by what the others have and how they get on."""
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
        return may_ask if self._having.neighbours is not None else lambda _: False

    def _decide(self) -> None:
        """Decide what comes from where. What has begun to come is fetched here."""
        self._asked.leave_overdue()
        turn_of = bytearray(self._turns.files)
        for ino in self.fetching.version.parts:
            turn_of[ino] = PIECES if turn_of[ino] == PIECES else OWN
        havings = [having.files for having in self._having.by_peer.values()]
        found = self._but_for_failed(turn_of, wanted(bytes(turn_of), self._sharers.takes(), havings))
        self._upcoming = self._sighted(self._in_order(found.from_source))
        self._given = Wishes(map(Wish, self._from_others(found.from_others)))
        self._own_pieces = Wishes(self._pieces.own())
        self._given_pieces = Wishes(self._pieces.given())

    def _but_for_failed(self, turn_of: bytearray, found: Wanted) -> Wanted:
        """Decide otherwise of the files that somebody failed to give."""
        source, others = bytearray(found.from_source), bytearray(found.from_others)
        for ino in self._asked.failed_files():
            where = self._asked.comes_from((ino, None), turn_of[ino], self._sharers)
            source[ino], others[ino] = where is ComesFrom.SOURCE, where is ComesFrom.OTHERS
        return Wanted(bytes(source), bytes(others))

    def _from_others(self, marks: bytes) -> Iterator[Entry]:
        """Yield the files that others give: at last those that doubted nodes alone have.

        Each node begins elsewhere with these: what does not come to one comes to it from another then.
        """
        doubt = self.fetching.context.givers.doubt
        sure, unsure = had_by(marks, [one.files for peer, one in self._having.by_peer.items() if doubt(peer) == 0])
        yield from self._in_order(sure, self.division.begin)
        yield from self._in_order(unsure, self.division.place)

    def _in_order(self, marks: bytes, begin: float = 0.0) -> Iterator[Entry]:
        """Yield those of the marked files that are to be warmed, missing and not under way; see ``left_of``."""
        busy = self.fetching.busy() | {*self._runs.values()}
        for entry in left_of(self.fetching, marks, begin):
            if not self._asked.is_coming((entry.ino, None)) and entry.ino not in busy:
                yield entry
