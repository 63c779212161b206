"""Brings a small file for a reader from a peer that has it, before the source is asked."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.peers.peer_client import Ask, Came
from stoker_sidecar.fetcher.peers.peer_downloads import PeerDownloads
from stoker_sidecar.fetcher.peers.peer_inventories import PeerInventories
from stoker_sidecar.version.manifest import Entry

# Seconds for which a node that delayed a reader gets no requests of readers: the first time (doubled each time in a
# row), and the maximum.
REST, LONGEST_REST = 0.5, 8.0
# Seconds that a reader waits for another node: the minimum, the maximum (also while the source's time is unknown), and
# a multiple of the source's time. With too few processors, a peer and the source both take ten times as long. There, a
# limit of 0.1 s made four nodes read 1.9 x the data from the source. With this limit they read 1.1 x.
_LEAST_PATIENCE, MOST_PATIENCE, _TIMES_SOURCE = 0.1, 1.0, 4.0
# Parallel requests to one node. It serves 16 in total, and a reader that queues there waits in vain.
_AT_ONCE = 4
# Weight of the last value in an average.
_WEIGHT = 0.1


class SourceTimes:
    """Average seconds that readers waited lately for the source."""

    def __init__(self) -> None:
        self._seconds = inf

    def took(self, seconds: float) -> None:
        """Note the seconds that one file took."""
        before = seconds if self._seconds == inf else self._seconds
        self._seconds = before + _WEIGHT * (seconds - before)

    @property
    def patience(self) -> float:
        """Seconds that a reader waits for another node."""
        return min(MOST_PATIENCE, _LEAST_PATIENCE + _TIMES_SOURCE * self._seconds)


@dataclass
class GiversForReaders:
    """The nodes that give files to readers of one version, while it is divided. ``clock``: seconds, monotonic."""

    having: PeerInventories
    taking: PeerDownloads
    path_of: Callable[[Entry], str]
    clock: Callable[[], float]
    waiting: int = 0  # readers' files that are requested from a peer now
    times: SourceTimes = field(default_factory=SourceTimes)
    _turns: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    _rests: dict[str, float] = field(default_factory=dict)  # seconds of the last rest
    _rests_until: dict[str, float] = field(default_factory=dict)

    async def bring(self, entry: Entry, from_source: Callable[[], Awaitable[None]]) -> None:
        """Bring a whole file from the nearest node that has it. If it does not come in time, use the source.

        Raises what ``from_source`` raises.
        """
        peer = self._giver(entry.ino)
        if peer is not None and await self._bring(entry, peer):
            return
        began = self.clock()
        await from_source()
        self.times.took(self.clock() - began)

    async def _bring(self, entry: Entry, peer: str) -> bool:
        """Fetch the file from that node. Return True if it is here."""
        came, turns = Came.USELESS, self._turns.setdefault(peer, asyncio.Semaphore(_AT_ONCE))
        self.waiting += 1
        try:
            async with asyncio.timeout(self.times.patience), turns:
                if self._may_give(peer, entry.ino, self.clock()):  # it may have kept requests waiting
                    came = Came.NOTHING  # until now it was not that node that was waited for
                    came = await self._take(entry, peer)
        except TimeoutError:
            pass
        finally:
            self.waiting -= 1
        self._note(peer, came)
        return self.taking.is_here(entry)

    async def _take(self, entry: Entry, peer: str) -> Came:
        client = self.having.client
        if client is None:
            return Came.USELESS
        ask = Ask(self.path_of(entry), 0, entry.size, entry.size, reader=True)
        with suppress(SidecarError, RuntimeError):  # the disk's trouble is the source's, too; the pass is over
            return await self.taking.take_for_reader(entry, partial(client.bring, peer, ask))
        return Came.USELESS

    def _giver(self, ino: int) -> str | None:
        """Return the nearest node that has the file and answers in time. Nodes spread over peers at equal distance."""
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
        """Record how a node gave. A late answer to a reader is no failure for requests that can wait."""
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
