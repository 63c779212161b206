"""What the other nodes of a division have of a version: each is asked again and again, at the pace that it bears."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from stoker_sidecar.fetcher.core.givers import Givers
from stoker_sidecar.fetcher.download.neighbours import Having, Neighbours
from stoker_sidecar.fetcher.download.node_division import Division
from stoker_sidecar.fetcher.download.warming import WarmLimits

# Seconds between two questions what the others have: at first, later, and of a version of so many inodes, an answer
# about which costs each of them some 8 ms.
LOOK_FIRST, LOOK, LOOK_INODES = 0.05, 0.5, 1_000_000
_LOOK_SELDOM = 3.0
# Times that a node has not what it said it has, after which that is believed no more, until it says anew.
_MOST_ABSENT = 3


@dataclass
class OthersHaving:
    """What others have, ``by_peer``: host:port. ``told`` is set when one of them has more.

    ``neighbours``: None where nobody can be asked. ``inodes``: of the version.
    """

    division: Division
    limits: WarmLimits
    givers: Givers
    neighbours: Neighbours | None
    inodes: int
    by_peer: dict[str, Having] = field(default_factory=dict)
    told: asyncio.Event = field(default_factory=asyncio.Event)
    _absent: Counter[str] = field(default_factory=Counter)

    async def ask_on(self, peer: str) -> None:
        """Ask one node again and again what it has; one that does not answer keeps nobody else waiting."""
        others, wait = len(self.division.asked), LOOK_FIRST
        load = max(1.0, self.inodes * others / LOOK_INODES)
        while True:
            await self.ask_once(peer)
            having = self.by_peer.get(peer)
            if (
                having is not None and having.number >= 0 and self.givers.is_believed(peer)
            ):  # it answers once it has more
                wait = min(LOOK, LOOK_FIRST * others)
            await self.limits.sleep(min(_LOOK_SELDOM, wait * load))
            wait = min(LOOK, 2 * wait)

    async def ask_once(self, peer: str) -> None:
        """Ask one node what it has; who may not be asked has nothing."""
        if self.neighbours is None or not self.givers.may_ask(peer):
            self.by_peer.pop(peer, None)
            return
        before = self.by_peer.get(peer)
        # Who is not believed is to answer at once: it is waited for less, and falls silent less easily.
        known = before.number if before is not None and self.givers.is_believed(peer) else -1
        said = await self.neighbours.having(peer, self.inodes, known)
        arrived = -1 if said is None else said.arrived
        if said is not None and said.choice != self.division.choice:
            arrived = 0  # what comes to it is not what it would be waited for
        self.division.progress.told(peer, arrived, self.limits.clock())
        self._take(peer, self.by_peer.get(peer), said)

    def was_absent(self, peer: str) -> None:
        """Note that a node had not what it said it has: a few times more, and none of it is believed."""
        self._absent[peer] += 1
        if self._absent[peer] == _MOST_ABSENT:
            self.by_peer[peer] = Having(b"", 0)
            self.givers.contradicted(peer)
            self.told.set()

    def _take(self, peer: str, before: Having | None, said: Having | None) -> None:
        """Go by what a node says, or, once it says nothing, for a while by what it said before."""
        if before is not None and before.number >= 0 and (said is None or said.lacks(before)):
            self.givers.contradicted(peer)
        if said is None:
            gets_on = before is not None and self.division.progress.gets_on(peer, self.limits.clock())
            said = before if before is not None and gets_on else Having(b"", 0)
        else:
            self._absent.pop(peer, None)
        self.by_peer[peer] = said
        if not said.is_as(before):
            self.told.set()

    async def until_told(self, most: float) -> None:
        """Wait until one of them has more, for so many seconds at most."""
        waiting = asyncio.create_task(self.told.wait()), asyncio.ensure_future(self.limits.sleep(most))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()
        self.told.clear()
