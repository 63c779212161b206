"""An order of files that can be asked how much is left of it, as far as that matters."""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

from stoker_sidecar.fetcher.download.parts import chunk_count
from stoker_sidecar.version.manifest import Entry


class SightedOrder:
    """An iterator over the entries of another. Entries are taken from that only when they are asked about.

    ``missing``: tells whether a file is still to come, since it may have come after it was looked at. ``alike``:
    whether two files are of one rank, so that neither is to come before the other.
    """

    def __init__(
        self, order: Iterator[Entry], missing: Callable[[int], bool], alike: Callable[[Entry, Entry], bool]
    ) -> None:
        self._order = order
        self._missing = missing
        self._alike = alike
        self._seen: deque[Entry] = deque()

    def __iter__(self) -> Iterator[Entry]:
        """Return itself."""
        return self

    def __next__(self) -> Entry:
        """Return the next entry. Raises StopIteration."""
        while self._seen:
            if self._missing((entry := self._seen.popleft()).ino):
                return entry
        return next(self._order)

    def following(self, most: int) -> list[Entry]:
        """Return the next entries, so many at most; they stay."""
        return list(islice(self._upcoming(), most))

    def pieces_left(self, current: Entry, enough: int) -> int:
        """Count the pieces of the files that follow ``current`` and are of its rank; ``enough`` or more: no further."""
        pieces = 0
        for following in self._upcoming():
            if pieces >= enough or not self._alike(current, following):
                break
            pieces += max(1, chunk_count(following.size))
        return pieces

    def _upcoming(self) -> Iterator[Entry]:
        yield from list(self._seen)
        for entry in self._order:
            self._seen.append(entry)
            yield entry
