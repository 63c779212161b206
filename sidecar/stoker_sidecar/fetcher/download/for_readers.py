"""Has a small file that a reader waits for come from another node that has it, before the source is asked for it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.download.from_others import FromOthers
from stoker_sidecar.fetcher.download.neighbours import Ask, Came
from stoker_sidecar.fetcher.download.others_having import OthersHaving
from stoker_sidecar.version.manifest import Entry

# Seconds for which a node that kept a reader waiting is asked for no reader: at first, twice as many each time in a
# row, and at most.
REST, LONGEST_REST = 0.5, 8.0
# Seconds that a reader waits for another node: these and so many times what the source takes, and at most, also while
# that is not known. On a machine with too few processors both take ten times as long, and who gave up after a tenth of
# a second had 1.9 x the data from the source for four nodes, and 1.1 x so.
_LEAST_PATIENCE, MOST_PATIENCE, _TIMES_SOURCE = 0.1, 1.0, 4.0
# Asked of one node at a time: it gives 16 to all others together, and who waits for its turn there has waited in vain.
_AT_ONCE = 4
# How much of an average the last one is.
_WEIGHT = 0.1


class SourceTimes:
    """Seconds that readers waited lately for what the source sent, on average."""

    def __init__(self) -> None:
        self._seconds = inf

    def took(self, seconds: float) -> None:
        """Note how long one file took."""
        before = seconds if self._seconds == inf else self._seconds
        self._seconds = before + _WEIGHT * (seconds - before)

    @property
    def patience(self) -> float:
        """How many seconds another node is waited for."""
        return min(MOST_PATIENCE, _LEAST_PATIENCE + _TIMES_SOURCE * self._seconds)


@dataclass
class GiversForReaders:
    """The nodes that give what readers of one version wait for, while it is divided. ``clock``: seconds, monotonic."""

    having: OthersHaving
    taking: FromOthers
    path_of: Callable[[Entry], str]
    clock: Callable[[], float]
    waiting: int = 0  # readers' files that another node is asked for at the moment
    times: SourceTimes = field(default_factory=SourceTimes)
    _turns: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    _rests: dict[str, float] = field(default_factory=dict)  # how long the last one was
    _rests_until: dict[str, float] = field(default_factory=dict)

    async def bring(self, entry: Entry, from_source: Callable[[], Awaitable[None]]) -> None:
        """Have a whole file come from the nearest node that has it; from the source, where it does not come in time.

        Raises what ``from_source`` raises.
        """
        peer = self._giver(entry.ino)
        if peer is not None and await self._bring(entry, peer):
            return
        began = self.clock()
        await from_source()
        self.times.took(self.clock() - began)

    async def _bring(self, entry: Entry, peer: str) -> bool:
        """Have it come from that node; tell whether it is here."""
        came, turns = Came.USELESS, self._turns.setdefault(peer, asyncio.Semaphore(_AT_ONCE))
        self.waiting += 1
        try:
            async with asyncio.timeout(self.times.patience), turns:
                if self._may_give(peer, entry.ino, self.clock()):  # it may have kept others waiting meanwhile
                    came = Came.NOTHING  # until now it was not that node that was waited for
                    came = await self._take(entry, peer)
        except TimeoutError:
            pass
        finally:
            self.waiting -= 1
        self._note(peer, came)
        return self.taking.is_here(entry)

    async def _take(self, entry: Entry, peer: str) -> Came:
        neighbours = self.having.neighbours
        if neighbours is None:
            return Came.USELESS
        ask = Ask(self.path_of(entry), 0, entry.size, entry.size, reader=True)
        with suppress(SidecarError, RuntimeError):  # the disk's trouble is the source's, too; the pass is over
            return await self.taking.take_for_reader(entry, partial(neighbours.bring, peer, ask))
        return Came.USELESS

    def _giver(self, ino: int) -> str | None:
        """Return who is asked: the nearest that has it and kept nobody waiting; of several alike each node another."""
        division, now = self.having.division, self.clock()
        able = [peer for peer in division.asked if self._may_give(peer, ino, now)]
        if not able:
            return None
        distances = division.distance_of
        least = min(distances.get(peer, 0) for peer in able)
        near = [peer for peer in able if distances.get(peer, 0) == least]
        return near[(ino + division.position) % len(near)]

    def _may_give(self, peer: str, ino: int, now: float) -> bool:
        said, givers = self.having.by_peer.get(peer), self.having.givers
        if said is None or not said.is_whole(ino) or now < self._rests_until.get(peer, -inf):
            return False
        return givers.may_ask(peer) and givers.doubt(peer) == 0

    def _note(self, peer: str, came: Came) -> None:
        """Remember how a node gave: what did not come at once is no sign that it gives nothing to who can wait."""
        if came not in (Came.WHOLE, Came.USELESS):
            self._rests[peer] = min(LONGEST_REST, 2 * self._rests.get(peer, REST / 2))
            self._rests_until[peer] = self.clock() + self._rests[peer]
        match came:
            case Came.WHOLE:
                self._rests.pop(peer, None)
                self.having.givers.gave(peer)
            case Came.WRONG:
                self.having.givers.was_wrong(peer)
            case Came.ABSENT:
                self.having.was_absent(peer)
