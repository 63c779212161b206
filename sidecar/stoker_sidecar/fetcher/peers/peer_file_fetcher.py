"""Requests to other nodes: the node to ask, the transfers that run, and the items left to the source."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf

from stoker_sidecar.fetcher.download.core.peer_scores import AbleGiver, nearest_giver
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.ondisk.piece_maps import Gift
from stoker_sidecar.fetcher.peers.core.division import PeerSet
from stoker_sidecar.fetcher.peers.core.failed_peer_fetches import TRIES, ComesFrom, FailedPeerFetches
from stoker_sidecar.fetcher.peers.peer_client import Ask, Came, Having, PeerClient
from stoker_sidecar.fetcher.peers.peer_downloads import PeerDownloads
from stoker_sidecar.fetcher.peers.peer_inventories import PeerInventories
from stoker_sidecar.fetcher.peers.peer_requests import GivenCopy, PeerRequest, WishKey
from stoker_sidecar.wire.small_files import MOST_BYTES, MOST_ESCAPED, MOST_QUERY


class FileBatch:
    """Files that ``peer`` is asked for at once, while a caller waits for one of them.

    ``turns``: acquired before the node is asked.
    """

    def __init__(self, client: PeerClient, peer: str, asks: Sequence[Ask], turns: asyncio.Semaphore) -> None:
        loop = asyncio.get_running_loop()
        self._coming: list[asyncio.Future[bytes | Came]] = [loop.create_future() for _ in asks]
        self._left = set(range(len(asks)))
        self._task = asyncio.create_task(self._bring(client, peer, asks, turns))

    async def of(self, place: int) -> bytes | Came:
        """Wait for a file. Return its bytes, or the outcome."""
        return await self._coming[place]

    def leave(self, place: int) -> None:
        """Stop waiting for a file, which may have come."""
        self._left.discard(place)
        if not self._left:
            self._task.cancel()

    async def _bring(self, client: PeerClient, peer: str, asks: Sequence[Ask], turns: asyncio.Semaphore) -> None:
        came = Came.USELESS  # the request ended without an error
        try:
            async with turns:
                came = await client.bring_files(peer, asks, self._give)
        except RuntimeError:  # the pass and its callers are over
            pass
        finally:
            for place, coming in enumerate(self._coming):
                if not coming.done():
                    self._set(place, came)
                    came = Came.CUT if came is Came.NOTHING else came

    def _give(self, place: int, content: bytes | None) -> None:
        self._set(place, Came.ABSENT if content is None else content)

    def _set(self, place: int, found: bytes | Came) -> None:
        if not self._coming[place].done():  # a caller still waits
            self._coming[place].set_result(found)


# Requests to one node at a time: the number that a node serves in total, and the minimum.
_AT_ONCE, _LEAST_AT_ONCE = 16, 2
# Seconds for which a node at its limit is asked only for items that no different node has.
_BUSY = 1.0
# The number of failed attempts that each outcome counts as. Late answers and outcomes that no retry mends count more.
_TRIED = {Came.ABSENT: 1, Came.NOTHING: 1, Came.CUT: 1, Came.WRONG: TRIES, Came.USELESS: TRIES}
_LATE = 2
# A node that failed to give the same item before is asked last.
_MOST_DOUBTED = 3


@dataclass
class PeerFileFetcher:
    """Copies of files and pieces that peers give.

    ``ended`` receives for each copy whether it succeeded. ``clock``: seconds.
    """

    fetching: Fetching
    downloads: PeerDownloads
    having: PeerInventories
    clock: Callable[[], float]
    ended: Callable[[bool], None]
    _copying: dict[WishKey, GivenCopy] = field(default_factory=dict)
    _failed: FailedPeerFetches = field(default_factory=FailedPeerFetches)
    _busy: dict[str, float] = field(default_factory=dict)  # when a node said so last

    def __len__(self) -> int:
        """Count the running transfers."""
        return len(self._copying)

    def taking(self) -> int:
        """Count running requests, except those for files of doubted nodes: these are few, and mostly fail."""
        taken = (copy for (_, chunk), copy in self._copying.items() if chunk is not None or not copy.doubted)
        return len({copy.request for copy in taken})

    def giver(self, wish: PeerRequest, most_pieces: int) -> str | None:
        """Return the nearest node to ask for an item; empty if no node is to be asked.

        None: the nodes that have it already serve this node at their limit. ``most_pieces``: limit of pieces asked of
        one node at a time; 0 means the limit of files.
        """
        entry, chunk = wish
        if wish.key in self._copying or not self.fetching.version.states.is_missing(entry.ino):
            return ""
        asked = self._asked()
        givers, division, now = self.fetching.context.givers, self.having.division, self.clock()
        distance_of = division.distance_of
        able = [
            AbleGiver(
                peer,
                distance=distance_of.get(peer, 0),
                linked=peer in division.links,
                asked=asked[peer],
                busy=now - self._busy.get(peer, -inf) < _BUSY,
                doubt=_MOST_DOUBTED if self._failed.has_failed(wish.key, peer) else givers.doubt(peer),
            )
            for peer in self._havers(wish.key)
            if self._failed.may_ask(wish.key, peer, now)
        ]
        if not able:
            return ""
        # Nodes list peers in the same order, so each node picks a different one of several equal peers.
        able = able[(at := division.position % len(able)) :] + able[:at]
        return nearest_giver(able, self._most(0 if chunk is None else most_pieces))

    def free(self, most_pieces: int = 0) -> list[Having]:
        """Return the inventories of peers with a free slot: for files, or for pieces if ``most_pieces`` is not 0."""
        asked, most = self._asked(), self._most(most_pieces)
        return [having for peer, having in self.having.by_peer.items() if asked[peer] < most]

    def ask(self, wish: PeerRequest, giver: str) -> None:
        """Ask a node for it, unless it is here by now or the node has nothing."""
        entry, chunk = wish
        having, client = self.having.by_peer.get(giver), self.having.client
        version, others = self.fetching.version, self.downloads
        if having is None or client is None or not version.states.is_missing(entry.ino):
            return
        offset, length = wish.span
        part = "" if having.is_whole(entry.ino) else having.part(entry.ino)
        about = Ask(version.manifest.path_of(entry), offset, length, entry.size, part)
        bring = partial(client.bring, giver, about)
        if chunk is None:
            task = others.start_copy(entry, bring)
        else:
            gift = Gift(giver, having.passes_on(entry.ino, chunk))
            task = others.start_piece(entry, chunk, gift, bring)
        doubt = self.fetching.context.givers.doubt(giver)
        self._copying[wish.key] = GivenCopy.begun(giver, doubt, length, self.clock(), task)
        task.add_done_callback(partial(self._copied, wish.key))

    def with_others(self, wish: PeerRequest, giver: str, ahead: Iterable[PeerRequest]) -> list[PeerRequest]:
        """Return this request, and the following small files that fit into the same request to this node.

        Empty: it is requested alone, since the node gives single files or failed lately.
        """
        having = self.having.by_peer.get(giver)
        if having is None or having.together == 0 or not self._goes_along(wish, giver):
            return []
        found, size, query = [wish], wish.entry.size, self._query(wish)
        for other in ahead:
            if len(found) == having.together:
                break
            if not having.is_whole(other.entry.ino) or size + other.entry.size > MOST_BYTES:
                continue
            longer = query + self._query(other)
            if longer <= MOST_QUERY and self._goes_along(other, giver) and self.giver(other, 0) == giver:
                found.append(other)
                size, query = size + other.entry.size, longer
        return found if query <= MOST_QUERY else []

    def _query(self, wish: PeerRequest) -> int:
        """Return the maximum number of characters of its path in a query."""
        return MOST_ESCAPED * len(self.fetching.version.manifest.path_of(wish.entry).encode()) + len("path=&")

    def _goes_along(self, wish: PeerRequest, giver: str) -> bool:
        """Return True if a file may share a request with more files. An item that failed before is asked for alone."""
        small = wish.chunk is None and self.downloads.takes_small(wish.entry)
        return small and wish.key not in self._failed and self.fetching.context.givers.doubt(giver) == 0

    def ask_together(self, wishes: Sequence[PeerRequest], giver: str) -> None:
        """Fetch small files from that node in one request. Skip files that arrived."""
        having, client = self.having.by_peer.get(giver), self.having.client
        version = self.fetching.version
        left = [wish for wish in wishes if version.states.is_missing(wish.entry.ino)]
        if having is None or client is None or not left:
            return
        asks = [Ask(version.manifest.path_of(entry), 0, entry.size, entry.size) for entry, _ in left]
        batch, size = FileBatch(client, giver, asks, self.fetching.context.settings.given), 0
        for place, wish in enumerate(left):
            size += wish.entry.size  # they arrive in order
            task = self.downloads.start_small(wish.entry, partial(batch.of, place))
            task.add_done_callback(partial(_leave, batch, place))
            copy = GivenCopy.begun(giver, 0, size, self.clock(), task)
            self._copying[wish.key] = copy._replace(request=batch)
            task.add_done_callback(partial(self._copied, wish.key))

    def is_coming(self, key: WishKey) -> bool:
        """Return True if another node gives it and is not overdue."""
        copy = self._copying.get(key)
        return copy is not None and self.clock() < copy.due

    def _most(self, most_pieces: int) -> int:
        """Return the limit of requests to one node; ``most_pieces``: 0 means the limit of files."""
        most = max(_LEAST_AT_ONCE, _AT_ONCE // max(1, len(self.having.by_peer)))
        return min(most, most_pieces) if most_pieces else most

    def _asked(self) -> Counter[str]:
        """Count the requests to each node."""
        return Counter(giver for giver, _ in {(copy.giver, copy.request) for copy in self._copying.values()})

    def leave_overdue(self) -> None:
        """Cancel overdue copies, and the copies behind them in the same request."""
        overdue = {
            copy.request: copy.giver
            for key, copy in self._copying.items()
            if not (self.is_coming(key) or copy.task.cancelling())
        }
        for key, copy in self._copying.items():
            if copy.request not in overdue or copy.task.cancelling():
                continue
            copy.task.cancel()
            self._count(key, copy.giver, _LATE)
        for giver in overdue.values():
            self.fetching.context.givers.failed(giver, late=True)

    def failed_files(self) -> list[int]:
        """Return the inodes of missing whole files that a node failed to give. Forget files that arrived."""
        self._failed.keep(self.fetching.version.states.is_missing)
        return self._failed.files()

    def has_failed(self, key: WishKey) -> bool:
        """Return True if a node failed to give it."""
        return key in self._failed

    def doubted(self, key: WishKey, giver: str) -> None:
        """Ask again for a piece, from a node that has it from the source. The file that it was in was wrong."""
        self._failed.doubted(key, giver, self.clock())

    def comes_from(self, key: WishKey, turn: int, sharers: PeerSet) -> ComesFrom:
        """Decide where an item comes from that a node failed to give. ``turn``: of the file or the piece."""
        who = self.having.division.others.__getitem__
        return self._failed.comes_from(key, turn, sharers, who, self._havers(key), self.clock())

    def _havers(self, key: WishKey) -> list[str]:
        """Return the nodes that report the item and may be asked."""
        givers = self.fetching.context.givers
        may_ask = givers.may_ask if key[1] is None else givers.may_ask_pieces
        has = Having.vouches if self._failed.is_doubted(key) else Having.has
        by_peer = self.having.by_peer
        return [
            peer
            for peer in self.having.division.asked
            if peer in by_peer and has(by_peer[peer], *key) and may_ask(peer)
        ]

    def _copied(self, key: WishKey, task: "asyncio.Task[Came]") -> None:
        copy = self._copying.pop(key)
        if task.cancelled():  # a reader asked for it
            self.ended(False)
            return
        came = Came.USELESS if task.exception() is not None else task.result()
        self.ended(came is Came.WHOLE)
        self._note(key, copy.giver, came)

    def _note(self, key: WishKey, giver: str, came: Came) -> None:
        """Record how a node gave.

        After a failure this item waits or goes elsewhere, and the node gets fewer requests.
        """
        givers = self.fetching.context.givers
        if came is Came.BUSY:
            self._busy[giver] = self.clock()
            return
        if came is Came.WHOLE:
            givers.gave(giver)
            self.having.division.progress.gave(giver, self.clock())
            return
        if came is Came.WRONG:
            givers.was_wrong(giver)
        if came is Came.ABSENT:
            self.having.was_absent(giver)
        elif came not in (Came.USELESS, Came.CUT):
            givers.failed(giver)
        self._count(key, giver, _TRIED[came], absent=came is Came.ABSENT)

    def _count(self, key: WishKey, giver: str, tries: int, *, absent: bool = False) -> None:
        """Note a failure. A file comes fast from the source, so each failure of a file counts twice."""
        tries = tries if key[1] is not None or absent else 2 * tries
        self._failed.failed(key, giver, self.clock(), tries=tries, absent=absent)


def _leave(batch: FileBatch, place: int, _: "asyncio.Task[Came]") -> None:
    batch.leave(place)
