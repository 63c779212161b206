"""A pass of warming of a version that several nodes are to have: they divide it, and give each other their shares."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial

from stoker_sidecar.fetcher.core.division import OWN, PIECES, VersionTurns, Wanted, wanted, wanted_pieces
from stoker_sidecar.fetcher.core.source_share import ShareGrowth
from stoker_sidecar.fetcher.download.neighbours import Ask, Came, Having, Neighbours
from stoker_sidecar.fetcher.download.node_division import PATIENCE, Division
from stoker_sidecar.fetcher.download.parts import chunk_count, chunk_span, is_whole
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
# Times that one node is asked for a file or a piece that does not come, before the source is.
_TRIES = 3
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
    _turns: VersionTurns = field(init=False)
    _growth: ShareGrowth = field(init=False)
    # Of files, and of pieces: which turns are this node's.
    _takes: bytes = b""
    _takes_pieces: bytes = b""
    _landed_at: float = field(init=False)
    _news: asyncio.Event = field(default_factory=asyncio.Event)  # for what others give
    _own_pieces: Wishes = field(default_factory=Wishes)
    _given: Wishes = field(default_factory=Wishes)
    _given_pieces: Wishes = field(default_factory=Wishes)

    async def run(self) -> None:
        """Fetch: see WarmPass."""
        version, self._landed_at = self.fetching.version, self.limits.clock()
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
        beside, version = (*looking, given), self.fetching.version
        for task in beside:
            task.add_done_callback(lambda _: self._landed.set())
        try:
            while not self._over() and version.missing() > 0 and not any(task.done() for task in beside):
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
        entry = next(self._upcoming, None)
        if entry is not None and (is_whole(entry.size) or self.fetching.admits(entry)):
            await self._start_all(entry)
        return entry is not None

    async def _begin_own_piece(self) -> bool:
        wish = self._own_pieces.take()
        if wish is None:
            return False
        await self._until(lambda: self._over() or self._in_flight < self._streams())
        entry, chunk = wish
        part = self.fetching.version.parts.get(entry.ino)
        came = part is not None and part.kept and not part.complete and part.there[chunk or 0]
        wanted_still = self.fetching.version.is_missing(entry.ino) and not self._is_coming(wish.key) and not came
        if not self._over() and wanted_still and self.fetching.admits(entry):
            self.share.bandwidth = self.fetching.tuning.of(entry.ino).bandwidth
            await self._start(entry, chunk or 0)
        return True

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
        """Return who has it and gives this node the fewest at this moment; empty where nobody is to be asked.

        None: who has it gives this node as much as it may.
        """
        entry, chunk = wish
        if wish.key in self._copying or not self.fetching.version.is_missing(entry.ino):
            return ""
        busy, refused = Counter(copy.giver for copy in self._copying.values()), self._refused.get(wish.key, set())
        givers = self.fetching.context.givers
        most = max(_LEAST_AT_ONCE, _AT_ONCE // max(1, len(self._having)))
        # What its own group has crosses no zone, mostly.
        able = [
            (busy[peer] >= most, peer in self.division.links, busy[peer], number, peer)
            for number, (peer, having) in enumerate(self._having.items())
            if peer not in refused and having.has(entry.ino, chunk)
            if chunk is None or givers.may_ask_pieces(peer)
        ]
        if not able:
            return ""
        is_busy, _, _, _, peer = min(able)
        return None if is_busy else peer

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
        inodes, wait = len(self._turns.files), _LOOK_FIRST
        load = inodes * len(self.division.asked) / _LOOK_INODES
        while True:
            await self._ask_once(peer)
            await self.limits.sleep(min(_LOOK_SELDOM, wait * max(1.0, load)))
            wait = min(_LOOK, 2 * wait)

    async def _ask_once(self, peer: str) -> None:
        if self._neighbours is None or not self.fetching.context.givers.may_ask(peer):
            self._having.pop(peer, None)
            return
        said = await self._neighbours.having(peer, len(self._turns.files))
        self.division.progress.told(peer, said.arrived if said is not None else -1, self.limits.clock())
        self._having[peer] = said if said is not None else Having(b"", 0)

    async def _weigh_on(self) -> None:
        wait = _LOOK_FIRST
        while True:
            await self.limits.sleep(wait)
            wait = min(_LOOK, 2 * wait)
            if self._growth.grows(self._landed_at, self.limits.clock()):
                self._turns = await self.division.prepare(
                    self.fetching.version, self.fetching.tuning, self._growth.share
                )
            self._weigh()

    def _weigh(self) -> None:
        """Decide anew what is whose, by what the others have and how they get on."""
        givers, now = self.fetching.context.givers, self.limits.clock()
        self._takes = self.division.takes(self._growth, self._asks(givers.may_ask), now)
        self._takes_pieces = self.division.takes(self._growth, self._asks(givers.may_ask_pieces), now)
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
        pieced = bytes(turn_of).translate(_ARE_PIECES)
        self._own_pieces = Wishes(self._pieces(pieced, own=True))
        self._given_pieces = Wishes(self._pieces(pieced, own=False))

    def _is_left_to_us(self, ino: int, chunk: int | None) -> bool:
        """Tell whether somebody failed to give it, and nobody else has it who may be asked."""
        if (refused := self._refused.get((ino, chunk))) is None:
            return False
        givers = self.fetching.context.givers
        may_ask = givers.may_ask if chunk is None else givers.may_ask_pieces
        havings = (having for peer, having in self._having.items() if peer not in refused and may_ask(peer))
        return not any(having.has(ino, chunk) for having in havings)

    def _in_order(self, marks: bytes, begin: float = 0.0) -> Iterator[Entry]:
        """Yield those of the marked files that are missing and not under way, by rank.

        ``begin``: where it begins in each rank, as a part of all inodes; what lies before comes last.
        """
        busy = self.fetching.busy() | {*self._runs.values()}
        for entry in self._ranked(marks, begin):
            if not self._is_coming((entry.ino, None)) and entry.ino not in busy:
                yield entry

    def _ranked(self, marks: bytes, begin: float) -> Iterator[Entry]:
        version, tuning = self.fetching.version, self.fetching.tuning
        at = int(begin * len(marks))
        for rank in tuning.ranks:
            of_rank = int.from_bytes(tuning.of_rank(rank, version.manifest.last_ino)) & int.from_bytes(marks)
            ranked = of_rank.to_bytes(len(marks))
            yield from MarkedOrder(version, bytes(at) + ranked[at:])
            if at:
                yield from MarkedOrder(version, ranked[:at].ljust(len(marks), b"\0"))

    def _pieces(self, marks: bytes, *, own: bool) -> Iterator[Wish]:
        """Yield the pieces of the marked files that are to come from the source, or from other nodes, by rank."""
        begin = 0.0 if own else self.division.begin
        for entry in self._ranked(marks, begin):
            found = self._wanted_pieces(entry)
            marked = found.from_source if own else found.from_others
            at = int(begin * len(marked))
            yield from (Wish(entry, chunk) for chunk in _marked(marked, at, len(marked)))
            yield from (Wish(entry, chunk) for chunk in _marked(marked, 0, at))

    def _wanted_pieces(self, entry: Entry) -> Wanted:
        count, part = chunk_count(entry.size), self.fetching.version.parts.get(entry.ino)
        here = bytearray(part.there if part is not None and part.kept else bytes(count))
        if part is not None and part.complete and not (part.promoting or self.fetching.from_others.settles(entry)):
            return Wanted(_first(part.chunks), b"")  # it was not moved into the tree: asked for once more, it is
        for chunk in range(count):
            here[chunk] |= self._is_coming((entry.ino, chunk)) or self.fetching.is_on_its_way(entry.ino, chunk)
        believed = self.fetching.from_others.believes(entry)
        doubted = part.doubted if part is not None else ()
        refused = bytes(
            int(not believed or chunk in doubted or self._is_left_to_us(entry.ino, chunk)) for chunk in range(count)
        )
        asked = self.fetching.context.givers.may_ask_pieces
        havings = [having.of(entry.ino, count) for peer, having in self._having.items() if asked(peer)]
        turn_of = self._turns.pieces.get(entry.ino, b"")
        return wanted_pieces(turn_of, self._takes_pieces, bytes(here), havings, refused=refused)


def _marked(marks: bytes, begin: int, end: int) -> Iterator[int]:
    chunk = marks.find(1, begin, end)
    while chunk >= 0:
        yield chunk
        chunk = marks.find(1, chunk + 1, end)


def _first(chunks: bytearray) -> bytes:
    """Mark one piece that is here; the first, where none is."""
    at = max(0, chunks.find(1))
    return bytes(at) + b"\1"
