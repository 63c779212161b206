"""A pass of warming of a version that several nodes are to have: they divide it, and give each other their shares."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import inf

from stoker_sidecar.fetcher.choosing import last_to_warm
from stoker_sidecar.fetcher.core.division import OWN, PIECES, VersionTurns, Wanted, wanted, wanted_pieces
from stoker_sidecar.fetcher.core.givers import AbleGiver, nearest_giver
from stoker_sidecar.fetcher.core.source_pace import side_by_side
from stoker_sidecar.fetcher.core.source_share import ShareGrowth
from stoker_sidecar.fetcher.download.chosen_order import ChosenOrder
from stoker_sidecar.fetcher.download.neighbours import Ask, Came, Having, Neighbours
from stoker_sidecar.fetcher.download.node_division import PATIENCE, Division
from stoker_sidecar.fetcher.download.others_shares import OthersShares
from stoker_sidecar.fetcher.download.parts import CHUNK, chunk_count, chunk_span, is_whole
from stoker_sidecar.fetcher.download.warming import MarkedOrder, WarmPass
from stoker_sidecar.fetcher.download.wishes import GivenCopy, Wish, Wishes, WishKey
from stoker_sidecar.version.manifest import Entry

# Seconds between two questions what the others have: at first, later, and of a version of so many inodes, an answer
# about which costs each of them some 8 ms.
_LOOK_FIRST, _LOOK, _LOOK_SELDOM, _LOOK_INODES = 0.05, 0.5, 3.0, 1_000_000
# Seconds for which the first answers are waited for: what another node has is not to be asked of the source.
_FIRST_ANSWERS = 1.0
# Requests to one node at a time: what a node gives at a time to all others together, or the least.
_AT_ONCE, _LEAST_AT_ONCE = 16, 2
# To all of them, and while readers wait.
_GIVEN_AT_ONCE, _BESIDE_READERS = 32, 4
# Seconds for which a node that said that it gives as much as it may is asked for what no other has alone.
_BUSY = 1.0
# Times that one node is asked for a file or a piece that does not come, before the source is.
_TRIES = 3
# What is looked for of the own share that is left; of more, all that may be is asked for at a time.
_MOST_LEFT = 128
_ARE_PIECES = bytes(int(turn == PIECES) for turn in range(256))


@dataclass
class DividedPass(WarmPass):
    """A WarmPass that fetches this node's share from the source, and the others' from them, as they have it.

    What nobody else has for ``PATIENCE`` is fetched from the source as well; what other groups are to fetch, after more
    than that in which nothing came. ``meet`` gives the neighbours.
    """

    division: Division = field(kw_only=True)
    meet: Callable[[], AbstractAsyncContextManager[Neighbours | None]] = field(kw_only=True)
    _neighbours: Neighbours | None = None
    _having: dict[str, Having] = field(default_factory=dict)  # by host:port
    # By inode and piece: who failed to give it, and who gives it.
    _refused: dict[WishKey, set[str]] = field(default_factory=dict)
    _tries: Counter[tuple[WishKey, str]] = field(default_factory=Counter)
    _copying: dict[WishKey, GivenCopy] = field(default_factory=dict)
    _busy: dict[str, float] = field(default_factory=dict)  # when a node said so last
    _turns: VersionTurns = field(init=False)
    _growth: ShareGrowth = field(init=False)
    # Of files, and of pieces: which turns are this node's.
    _takes: bytes = b""
    _takes_pieces: bytes = b""
    _alive: "set[str]" = field(default_factory=set)  # those that get on
    _helps: bool = False  # it was looked for what another node has yet to fetch
    _sharing: int = 1  # nodes that get on, this one among them
    _fetching: "set[asyncio.Task[None]]" = field(default_factory=set)  # pieces of this node's share
    _others: OthersShares = field(init=False)
    _landed_at: float = field(init=False)
    _last_left: int = -1  # an inode that is to be warmed, and was missing when that was looked at last
    _news: asyncio.Event = field(default_factory=asyncio.Event)  # for what others give
    _told: asyncio.Event = field(default_factory=asyncio.Event)  # another node has more
    _own_pieces: Wishes = field(default_factory=Wishes)
    _given: Wishes = field(default_factory=Wishes)
    _given_pieces: Wishes = field(default_factory=Wishes)

    async def run(self) -> None:
        """Fetch: see WarmPass."""
        if not self._left():
            return
        version, self._landed_at = self.fetching.version, self.limits.clock()
        self._others = OthersShares(self.division, self.limits.clock)
        self.fetching.context.givers.begin()
        self._growth = ShareGrowth(self.division.share, PATIENCE)
        self._turns = await self.division.prepare(version, self.fetching.tuning, self._growth.share)
        async with self.meet() as self._neighbours:
            others = self.division.asked
            looking = [asyncio.create_task(self._ask_once(peer)) for peer in others]
            try:
                await asyncio.wait(looking, timeout=_FIRST_ANSWERS)
                self._weigh()
                on = [asyncio.create_task(self._ask_on(peer)) for peer in others]
                looking += (on := [*on, asyncio.create_task(self._weigh_on())])
                await self._fetch(on)
            finally:
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
            if await self._begin_given(self._given) | await self._begin_given(self._given_pieces):
                await asyncio.sleep(0)
            else:
                await self._news.wait()

    def _idle(self) -> bool:
        return super()._idle() and not self._copying

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
        wanted_still = self.fetching.version.is_missing(entry.ino) and not self._is_coming(wish.key) and not came
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
            self._fetching.add(task)
            task.add_done_callback(self._fetching.discard)
            task.add_done_callback(partial(self._land, entry.ino))

    def _help(self) -> Wish | None:
        """Return a piece that another node has yet to fetch; None: there are too few, or it was looked for before."""
        if self._helps or self._sharing == 1:
            return None
        self._helps = True  # until what the others say is weighed anew
        left = islice(self._pieced(), _MOST_LEFT)
        return self._others.yet_to_begin(left, self._turns.pieces, self._here, self._near())

    def _may_begin_own(self) -> bool:
        """Tell whether the next file of this node's share may be asked for; one that nobody waits for always may."""
        following = self._upcoming.following(_MOST_LEFT)
        if not following or self._turns.files[following[0].ino] == OWN:
            return True
        most = self._side_by_side(len(following), following[0].size, self._slots())
        return self._in_flight - len(self._fetching) < most

    def _side_by_side(self, left: int, size: int, most: int) -> int:
        if self._sharing == 1 or left >= _MOST_LEFT:
            return most
        return side_by_side(left, size, most)

    async def _begin_given(self, wishes: Wishes) -> bool:
        """Have another node give the first wish, unless who has it gives as much as it may: then it waits."""
        demanded = self.fetching.context.settings.pipeline.lanes.demanded
        if self._over() or len(self._copying) >= (_BESIDE_READERS if demanded else _GIVEN_AT_ONCE):
            return False
        wish = wishes.first()
        giver = self._giver(wish) if wish is not None else None
        if wish is None or giver is None:
            return False
        wishes.take()
        if giver:
            await self._ask(wish, giver)
        return True

    async def _ask(self, wish: Wish, giver: str) -> None:
        entry, chunk = wish
        offset, length = (0, entry.size) if chunk is None else chunk_span(entry.size, chunk)
        if self.limits.bucket is not None:
            await self._pause(self.limits.bucket.take(length, self.limits.clock()))
        having, version, others = self._having.get(giver), self.fetching.version, self.fetching.from_others
        if having is None or self._neighbours is None or not version.is_missing(entry.ino):
            return
        part = "" if having.is_whole(entry.ino) else having.part(entry.ino)
        ask = Ask(version.manifest.path_of(entry), offset, length, entry.size, part)
        bring = partial(self._neighbours.bring, giver, ask)
        task = others.start_copy(entry, bring) if chunk is None else others.start_piece(entry, chunk, giver, bring)
        self._copying[wish.key] = GivenCopy.begun(giver, length, self.limits.clock(), task)
        task.add_done_callback(partial(self._copied, wish.key))

    def _giver(self, wish: Wish) -> str | None:
        """Return who has it and is asked for it, the nearest first; empty where nobody is to be asked.

        None: who has it gives this node as much as it may.
        """
        entry, chunk = wish
        if wish.key in self._copying or not self.fetching.version.is_missing(entry.ino):
            return ""
        asked, refused = Counter(copy.giver for copy in self._copying.values()), self._refused.get(wish.key, set())
        givers, division, now = self.fetching.context.givers, self.division, self.limits.clock()
        distance_of = division.distance_of
        able = [
            AbleGiver(
                peer,
                distance=distance_of.get(peer, 0),
                linked=peer in division.links,
                asked=asked[peer],
                busy=now - self._busy.get(peer, -inf) < _BUSY,
            )
            for peer, having in self._having.items()
            if peer not in refused and having.has(entry.ino, chunk)
            if chunk is None or givers.may_ask_pieces(peer)
        ]
        if not able:
            return ""
        return nearest_giver(able, self._most_of_one(chunk))

    def _most_of_one(self, chunk: int | None) -> int:
        """Return how much one node gives at a time; of pieces no more than come from the source, while any do.

        Else what is given would take this node's line from what it is to give the others.
        """
        most = max(_LEAST_AT_ONCE, _AT_ONCE // max(1, len(self._having)))
        return most if chunk is None or not self._fetching else min(most, len(self._fetching))

    def _learn(self, ino: int, task: asyncio.Task[None]) -> None:
        super()._learn(ino, task)
        self._landed_at = self.limits.clock()

    def _is_coming(self, key: WishKey) -> bool:
        """Tell whether another node gives it, and is not overdue."""
        copy = self._copying.get(key)
        return copy is not None and self.limits.clock() < copy.due

    def _copied(self, key: WishKey, task: "asyncio.Task[Came]") -> None:
        self._landed.set()
        self._news.set()
        giver, givers = self._copying.pop(key).giver, self.fetching.context.givers
        if task.cancelled():  # a reader asked for it
            return
        came = Came.USELESS if task.exception() is not None else task.result()
        if came is Came.BUSY:
            self._busy[giver] = self.limits.clock()
            return
        self._landed_at = self.limits.clock() if came is Came.WHOLE else self._landed_at
        if came is Came.WHOLE:
            givers.gave(giver)
            return
        if came is Came.WRONG:
            givers.was_wrong(giver)
        if came is not Came.USELESS:
            givers.failed(giver)
        self._tries[key, giver] += 1
        if came is not Came.NOTHING or self._tries[key, giver] >= _TRIES:
            self._refused.setdefault(key, set()).add(giver)

    async def _ask_on(self, peer: str) -> None:
        """Ask one node again and again what it has; one that does not answer keeps nobody else waiting."""
        others, wait = len(self.division.asked), _LOOK_FIRST
        load = max(1.0, len(self._turns.files) * others / _LOOK_INODES)
        while True:
            await self._ask_once(peer)
            having = self._having.get(peer)
            if having is not None and having.number >= 0:  # it answers once it has more
                wait = min(_LOOK, _LOOK_FIRST * others)
            await self.limits.sleep(min(_LOOK_SELDOM, wait * load))
            wait = min(_LOOK, 2 * wait)

    async def _ask_once(self, peer: str) -> None:
        if self._neighbours is None or not self.fetching.context.givers.may_ask(peer):
            self._having.pop(peer, None)
            return
        before = self._having.get(peer)
        inodes, number = len(self._turns.files), before.number if before is not None else -1
        said = await self._neighbours.having(peer, inodes, number)
        arrived = -1 if said is None else said.arrived
        if said is not None and said.choice != self.division.choice:
            arrived = 0  # what comes to it is not what it would be waited for
        self.division.progress.told(peer, arrived, self.limits.clock())
        self._having[peer] = said = said if said is not None else Having(b"", 0)
        if not said.is_as(before):
            self._told.set()

    async def _weigh_on(self) -> None:
        """Decide anew when another node has more, and now and then; of a large version not as often."""
        rest = min(_LOOK, max(_LOOK_FIRST, _LOOK * len(self._turns.files) / _LOOK_INODES))
        while True:
            await self.limits.sleep(rest)
            await self._until_told(_LOOK - rest)
            self._told.clear()
            if self._growth.grows(self._landed_at, self.limits.clock()):
                self._turns = await self.division.prepare(
                    self.fetching.version, self.fetching.tuning, self._growth.share
                )
            self._weigh()

    async def _until_told(self, most: float) -> None:
        waiting = asyncio.create_task(self._told.wait()), asyncio.ensure_future(self.limits.sleep(most))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()

    def _weigh(self) -> None:
        """Decide anew what is whose, by what the others have and how they get on."""
        givers, now, division = self.fetching.context.givers, self.limits.clock(), self.division
        asks = self._asks(givers.may_ask)
        self._alive = {peer for peer in division.asked if asks(peer) and division.progress.gets_on(peer, now)}
        self._sharing, self._helps = 1 + len(self._alive), False
        self._takes = division.takes(self._growth, asks, now)
        self._takes_pieces = division.takes(self._growth, self._asks(givers.may_ask_pieces), now)
        self._decide()
        self._landed.set()
        self._news.set()

    def _asks(self, may_ask: Callable[[str], bool]) -> Callable[[str], bool]:
        return may_ask if self._neighbours is not None else lambda _: False

    def _decide(self) -> None:
        """Decide what comes from where.

        What a node failed to give in time, and what has begun to come, is fetched here.
        """
        for key, copy in self._copying.items():
            if not self._is_coming(key) and not copy.task.cancelling():
                copy.task.cancel()
                self._refused.setdefault(key, set()).add(copy.giver)
                self.fetching.context.givers.failed(copy.giver, late=True)
        turn_of = bytearray(self._turns.files)
        refused = {ino for ino, chunk in self._refused if chunk is None and self._is_left_to_us(ino, chunk)}
        for ino in {*refused, *self.fetching.version.parts}:
            turn_of[ino] = PIECES if turn_of[ino] == PIECES else OWN
        found = wanted(bytes(turn_of), self._takes, [having.files for having in self._having.values()])
        self._upcoming = self._sighted(self._in_order(found.from_source))
        self._given = Wishes(Wish(entry) for entry in self._in_order(found.from_others, self.division.begin))
        self._own_pieces = Wishes(self._pieces(own=True))
        self._given_pieces = Wishes(self._pieces(own=False))

    def _is_left_to_us(self, ino: int, chunk: int | None) -> bool:
        """Tell whether somebody failed to give it, and nobody else has it who may be asked."""
        if (refused := self._refused.get((ino, chunk))) is None:
            return False
        givers = self.fetching.context.givers
        may_ask = givers.may_ask if chunk is None else givers.may_ask_pieces
        havings = (having for peer, having in self._having.items() if peer not in refused and may_ask(peer))
        return not any(having.has(ino, chunk) for having in havings)

    def _in_order(self, marks: bytes, begin: float = 0.0) -> Iterator[Entry]:
        """Yield those of the marked files that are to be warmed, missing and not under way; see ``_left_of``."""
        busy = self.fetching.busy() | {*self._runs.values()}
        for entry in self._left_of(marks, begin):
            if not self._is_coming((entry.ino, None)) and entry.ino not in busy:
                yield entry

    def _left_of(self, marks: bytes, begin: float = 0.0) -> Iterator[Entry]:
        """Yield those of the marked files that are to be warmed and missing: path by path, or else by rank.

        ``begin``: where it begins in each rank, as a part of all inodes; what lies before comes last.
        """
        version, tuning = self.fetching.version, self.fetching.tuning
        if version.chosen.selection is not None:
            yield from ChosenOrder(version, version.chosen.selection, marks)
            return
        at = int(begin * len(marks))
        for rank in tuning.ranks:
            of_rank = int.from_bytes(tuning.of_rank(rank, version.manifest.last_ino)) & int.from_bytes(marks)
            ranked = of_rank.to_bytes(len(marks))
            yield from MarkedOrder(version, bytes(at) + ranked[at:])
            if at:
                yield from MarkedOrder(version, ranked[:at].ljust(len(marks), b"\0"))

    def _pieced(self, begin: float = 0.0) -> Iterator[Entry]:
        """Yield the files that go in pieces, are to be warmed and are missing, in their order."""
        return self._left_of(self._turns.files.translate(_ARE_PIECES), begin)

    def _pieces(self, *, own: bool) -> Iterator[Wish]:
        """Yield the pieces of those files that are to come from the source, or from other nodes."""
        begin = 0.0 if own else self.division.begin
        for entry in self._pieced(begin):
            found = self._wanted_pieces(entry)
            marked = found.from_source if own else found.from_others
            at = int(begin * len(marked))
            yield from (Wish(entry, chunk) for chunk in _marked(marked, at, len(marked)))
            yield from (Wish(entry, chunk) for chunk in _marked(marked, 0, at))

    def _wanted_pieces(self, entry: Entry) -> Wanted:
        count, part = chunk_count(entry.size), self.fetching.version.parts.get(entry.ino)
        if part is not None and part.complete and not (part.promoting or self.fetching.from_others.settles(entry)):
            return Wanted(_first(part.chunks), b"")  # it was not moved into the tree: asked for once more, it is
        here, coming = self._here(entry), self._others.coming(entry, self._near())
        believed = self.fetching.from_others.believes(entry)
        doubted = part.doubted if part is not None else ()
        refused = bytes(
            int(not believed or chunk in doubted or self._is_left_to_us(entry.ino, chunk)) for chunk in range(count)
        )
        asked = self.fetching.context.givers.may_ask_pieces
        havings = [having.of(entry.ino, count) for peer, having in self._having.items() if asked(peer)]
        turn_of = self._turns.pieces.get(entry.ino, b"")
        found = wanted_pieces(turn_of, self._takes_pieces, here, havings, refused=refused)
        return found._replace(
            from_source=bytes(one & (not told) for one, told in zip(found.from_source, coming, strict=True))
        )

    def _here(self, entry: Entry) -> bytes:
        """Return a byte a piece: 1 where it is here or on its way."""
        part = self.fetching.version.parts.get(entry.ino)
        here = bytearray(part.there if part is not None and part.kept else bytes(chunk_count(entry.size)))
        for chunk in range(len(here)):
            here[chunk] |= self._is_coming((entry.ino, chunk)) or self.fetching.is_on_its_way(entry.ino, chunk)
        return bytes(here)

    def _near(self) -> dict[str, Having]:
        """Return what those have that get on."""
        return {peer: having for peer, having in self._having.items() if peer in self._alive}


def _marked(marks: bytes, begin: int, end: int) -> Iterator[int]:
    chunk = marks.find(1, begin, end)
    while chunk >= 0:
        yield chunk
        chunk = marks.find(1, chunk + 1, end)


def _first(chunks: bytearray) -> bytes:
    """Mark one piece that is here; the first, where none is."""
    at = max(0, chunks.find(1))
    return bytes(at) + b"\1"
