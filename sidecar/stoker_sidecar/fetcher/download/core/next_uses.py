"""Which files are about to be read, how soon, and which have been since that was said. Pure."""

from collections.abc import Iterable, Sequence
from itertools import groupby

# Files that identify the start of a window in the one before. A single file is ambiguous, since it occurs twice around
# the end of an epoch.
_ALIKE = 8


class NextUses:
    """Known next reads of the readers of a version, by inode. Files that were read leave it."""

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}

    def tell(self, reader: str, files: Sequence[int]) -> None:
        """Replace a reader's window of files, in read order. Empty: its next reads are unknown."""
        before = self._windows.pop(reader, None)
        if files:
            self._windows[reader] = _Window(files, before)

    def read(self, ino: int) -> None:
        """Note that a file was read to its end, by the reader that was due first."""
        due = [(place, window) for window in self._windows.values() if (place := window.place(ino)) is not None]
        if due:
            min(due, key=lambda each: each[0])[1].read(ino)

    def was_read(self, reader: str, place: int) -> bool:
        """Return True if the file at a place of a reader's window was read since the window was set.

        Successive pieces of one file count once.
        """
        window = self._windows.get(reader)
        return window is not None and window.was_read(place)

    def files(self) -> list[int]:
        """Return all known next reads, the next one first. A repeated file is at its first place."""
        soonest: dict[int, int] = {}
        for window in self._windows.values():
            for ino, place in window.files():
                soonest[ino] = min(place, soonest.get(ino, place))
        return sorted(soonest, key=soonest.__getitem__)

    def place(self, ino: int) -> int | None:
        """Return about how many files are read before this one. None: no read of it is known."""
        return min((place for one in self._windows.values() if (place := one.place(ino)) is not None), default=None)


class _Window:
    """The window of one reader. Files read in ``before`` count as read here if this window continues it."""

    def __init__(self, files: Sequence[int], before: "_Window | None" = None) -> None:
        self._files = [ino for ino, _ in groupby(files)]
        self._done = before.done_since(self._files) if before is not None else set()
        self._next = dict(zip(self._files, range(len(self._files)), strict=True))
        self._later: dict[int, list[int]] = {}  # of files that occur again
        if self._done or len(self._next) < len(self._files):
            self._find_next()

    def _find_next(self) -> None:
        self._next = {}
        for place, ino in enumerate(self._files):
            if place in self._done:
                continue
            if ino in self._next:
                self._later.setdefault(ino, []).append(place)
            else:
                self._next[ino] = place

    def was_read(self, place: int) -> bool:
        """Return True if the file at this place was read."""
        return place in self._done

    def files(self) -> Iterable[tuple[int, int]]:
        """Return the unread files, and the first place of each."""
        return self._next.items()

    def place(self, ino: int) -> int | None:
        """Return the place of an unread file."""
        return self._next.get(ino)

    def read(self, ino: int) -> None:
        """Note that the file was read."""
        self._done.add(self._next.pop(ino))
        if later := self._later.get(ino):
            self._next[ino] = later.pop(0)

    def done_since(self, files: list[int]) -> set[int]:
        """Return the places that were read, as counted in a window that begins later in the same order."""
        start = -1
        if not self._done:
            return set()
        while True:
            try:
                start = self._files.index(files[0], start + 1)
            except ValueError:
                return set()
            length = min(_ALIKE, len(files), len(self._files) - start)
            if files[:length] == self._files[start : start + length]:
                return {place - start for place in self._done if place >= start}
