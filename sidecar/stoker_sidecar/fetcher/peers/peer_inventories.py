"""Inventories of the peers of a division. This node asks each peer repeatedly, at a pace that the peer can bear."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from stoker_sidecar.fetcher.download.core.peer_scores import PeerScores
from stoker_sidecar.fetcher.download.warming import WarmLimits
from stoker_sidecar.fetcher.peers.node_division import Division
from stoker_sidecar.fetcher.peers.peer_client import Having, PeerClient

# Seconds between two inventory queries: at first, and later. From this number of inodes on queries are rarer, since an
# answer costs each node some 8 ms.
LOOK_FIRST, LOOK, LOOK_INODES = 0.05, 0.5, 1_000_000
_LOOK_SELDOM = 3.0
# This node ignores an inventory after this number of missing files, until the peer sends a new one.
_MOST_ABSENT = 3


@dataclass
class PeerInventories:
    """Inventories of the peers, ``by_peer``: host:port. ``told`` is set when a peer has more.

    ``client``: None if no node can be asked. ``inodes``: of the version.
    """

    division: Division
    limits: WarmLimits
    givers: PeerScores
    client: PeerClient | None
    inodes: int
    by_peer: dict[str, Having] = field(default_factory=dict)
    told: asyncio.Event = field(default_factory=asyncio.Event)
    _absent: Counter[str] = field(default_factory=Counter)

    async def ask_on(self, peer: str) -> None:
        """Ask one node for its inventory repeatedly. A node that does not answer delays no other node."""
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
        """Query one node's inventory. A node that may not be asked has none."""
        if self.client is None or not self.givers.may_ask(peer):
            self.by_peer.pop(peer, None)
            return
        before = self.by_peer.get(peer)
        # A node that is not believed must answer at once. It has less time, and goes silent less easily.
        known = before.number if before is not None and self.givers.is_believed(peer) else -1
        said = await self.client.having(peer, self.inodes, known)
        arrived = -1 if said is None else said.arrived
        if said is not None and said.choice != self.division.choice:
            arrived = 0  # its arrivals are no reason to wait for it
        self.division.progress.told(peer, arrived, self.limits.clock())
        self._take(peer, self.by_peer.get(peer), said)

    def was_absent(self, peer: str) -> None:
        """Note that a node lacked a reported file. After a few times, its inventory is ignored."""
        self._absent[peer] += 1
        if self._absent[peer] == _MOST_ABSENT:
            self.by_peer[peer] = Having(b"", 0)
            self.givers.contradicted(peer)
            self.told.set()

    def _take(self, peer: str, before: Having | None, said: Having | None) -> None:
        """Use the answer of a node. If it stops answering, use its last inventory for a while."""
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
        """Wait until a peer has more, for ``most`` seconds at most."""
        waiting = asyncio.create_task(self.told.wait()), asyncio.ensure_future(self.limits.sleep(most))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()
        self.told.clear()
