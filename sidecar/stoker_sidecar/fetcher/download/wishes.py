"""What a pass of warming wishes other nodes to give, and what of it is under way."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple, Self

from stoker_sidecar.fetcher.core.failed_gifts import GiftKey
from stoker_sidecar.fetcher.download.neighbours import Came
from stoker_sidecar.fetcher.download.parts import chunk_span
from stoker_sidecar.version.manifest import Entry

# Seconds for which what another node is to give is waited for, of one that is not doubted, and of those that are; and
# bytes a second that it may take beside: as few as any answer has to come at, since a node may be giving to fifteen
# others. Of one that is doubted twice as many, and twice again.
_OVERDUE, _SLOW = (4.0, 1.0, 0.5), 2e6

WishKey = GiftKey


class Wish(NamedTuple):
    """A file and a piece of it; None: the whole file."""

    entry: Entry
    chunk: int | None = None

    @property
    def key(self) -> WishKey:
        """The same by the inode."""
        return self.entry.ino, self.chunk

    @property
    def span(self) -> tuple[int, int]:
        """Its first byte in the file, and how many they are."""
        return (0, self.entry.size) if self.chunk is None else chunk_span(self.entry.size, self.chunk)


class Wishes:
    """Wishes in order, of which the first one can be looked at before it is taken."""

    def __init__(self, wishes: Iterable[Wish] = ()) -> None:
        self._wishes = iter(wishes)
        self._seen: deque[Wish] = deque()

    def ahead(self, most: int) -> list[Wish]:
        """Return the next ones; they stay."""
        self.left(most)
        return list(islice(self._seen, most))

    def remove(self, wish: Wish) -> None:
        """Take one of those that are ahead."""
        self._seen.remove(wish)

    def take(self) -> Wish | None:
        """Return the next one and go on."""
        return self._seen.popleft() if self.left(1) else None

    def left(self, enough: int) -> int:
        """Count them; ``enough`` or more: no further."""
        self._seen.extend(islice(self._wishes, max(0, enough - len(self._seen))))
        return len(self._seen)


class GivenCopy(NamedTuple):
    """What is under way from ``giver``, host:port, in ``task``, and is overdue from ``due`` on.

    ``doubted``: the giver is, so that most of the time nothing may come. ``relay``: told what became of what was still
    on its way to the giver; None: it had all of it. ``request``: by which it is asked for, alone or with others.
    """

    giver: str
    due: float
    task: "asyncio.Task[Came]"
    doubted: bool = False
    relay: Callable[[Came], None] | None = None
    request: object = None

    @classmethod
    def begun(cls, giver: str, doubt: int, size: int, now: float, task: "asyncio.Task[Came]") -> Self:
        """Make it of so many bytes that begin ``now``, in seconds of any clock. ``doubt``: see Givers."""
        due = now + _OVERDUE[doubt] + size / (_SLOW * 2**doubt)
        return cls(giver, due, task, doubt > 0, request=task)
