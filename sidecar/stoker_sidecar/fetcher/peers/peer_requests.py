"""Items that a warming pass requests from other nodes, and the transfers that run."""

import asyncio
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple, Self

from stoker_sidecar.fetcher.ondisk.parts import chunk_span
from stoker_sidecar.fetcher.peers.core.failed_peer_fetches import GiftKey
from stoker_sidecar.fetcher.peers.peer_client import Came
from stoker_sidecar.version.manifest import Entry

# Seconds until a transfer from another node is overdue, by doubt (none, some, much). Then bytes a second that are added
# as time: the slowest allowed rate, since a node may serve fifteen peers. Each level of doubt doubles the rate.
_OVERDUE, _SLOW = (4.0, 1.0, 0.5), 2e6

WishKey = GiftKey


class PeerRequest(NamedTuple):
    """A file and a piece of it; None: the whole file."""

    entry: Entry
    chunk: int | None = None

    @property
    def key(self) -> WishKey:
        """The same by the inode."""
        return self.entry.ino, self.chunk

    @property
    def span(self) -> tuple[int, int]:
        """Its first byte in the file, and its length."""
        return (0, self.entry.size) if self.chunk is None else chunk_span(self.entry.size, self.chunk)


class PeerRequestQueue:
    """Requests in order. The first ones can be read before they are taken."""

    def __init__(self, wishes: Iterable[PeerRequest] = ()) -> None:
        self._wishes = iter(wishes)
        self._seen: deque[PeerRequest] = deque()

    def ahead(self, most: int) -> list[PeerRequest]:
        """Return the next ones; they stay."""
        self.left(most)
        return list(islice(self._seen, most))

    def remove(self, wish: PeerRequest) -> None:
        """Remove a request that ``ahead`` returned."""
        self._seen.remove(wish)

    def take(self) -> PeerRequest | None:
        """Return the next request and remove it."""
        return self._seen.popleft() if self.left(1) else None

    def left(self, enough: int) -> int:
        """Count them; ``enough`` or more: no further."""
        self._seen.extend(islice(self._wishes, max(0, enough - len(self._seen))))
        return len(self._seen)


class GivenCopy(NamedTuple):
    """A transfer from ``giver``, host:port, in ``task``. It is overdue from ``due`` on.

    ``doubted``: the giver failed lately. ``request``: the request that asks for it. It may cover several files.
    """

    giver: str
    due: float
    task: "asyncio.Task[Came]"
    doubted: bool = False
    request: object = None

    @classmethod
    def begun(cls, giver: str, doubt: int, size: int, now: float, task: "asyncio.Task[Came]") -> Self:
        """Make a copy of ``size`` bytes that begins ``now``, in seconds of any clock. ``doubt``: see PeerScores."""
        due = now + _OVERDUE[doubt] + size / (_SLOW * 2**doubt)
        return cls(giver, due, task, doubt > 0, request=task)
