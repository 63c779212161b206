"""Which files are about to be read, how soon, and which have been since that was said. Pure."""

from collections.abc import Iterable, Sequence
from itertools import groupby

# Files by which the start of a window is found in the one before it: a file comes twice where an epoch ends.
_ALIKE = 8


class NextUses:
    """What the readers of a version are known to read next, by inode; what they have read leaves it."""

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}

    def tell(self, reader: str, files: Sequence[int]) -> None:
        """Take what a reader will read, in its order, in place of what was told before; empty: nothing is known."""
        before = self._windows.pop(reader, None)
        if files:
            self._windows[reader] = _Window(files, before)

    def read(self, ino: int) -> None:
        """Take note that a file was read to its end: by the reader that was to do so first."""
        due = [(place, window) for window in self._windows.values() if (place := window.place(ino)) is not None]
        if due:
            min(due, key=lambda each: each[0])[1].read(ino)

    def was_read(self, reader: str, place: int) -> bool:
        """Tell whether the file at a place of a reader's window was read since it was told.

        Pieces of one file that follow each other count once.
        """
        window = self._windows.get(reader)
        return window is not None and window.was_read(place)

    def files(self) -> list[int]:
        """Return all that will be read, the next one first; a file that comes more than once at its first place."""
        soonest: dict[int, int] = {}
        for window in self._windows.values():
            for ino, place in window.files():
                soonest[ino] = min(place, soonest.get(ino, place))
        return sorted(soonest, key=soonest.__getitem__)

    def place(self, ino: int) -> int | None:
        """Return about how many files are read before this one; None: it is not known to be read."""
        return min((place for one in self._windows.values() if (place := one.place(ino)) is not None), default=None)


class _Window:
    """The window of one reader. What was read of ``before``, where that goes on in it, has been read of it too."""

    def __init__(self, files: Sequence[int], before: "_Window | None" = None) -> None:
        self._files = [ino for ino, _ in groupby(files)]
        self._done = before.done_since(self._files) if before is not None else set()
        self._next = dict(zip(self._files, range(len(self._files)), strict=True))
        self._later: dict[int, list[int]] = {}  # of files that come more than once
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
        """Tell whether the file at this place was."""
        return place in self._done

    def files(self) -> Iterable[tuple[int, int]]:
        """Return what has not been read since, and at which place each comes first."""
        return self._next.items()

    def place(self, ino: int) -> int | None:
        """Return where a file comes that has not been read since."""
        return self._next.get(ino)

    def read(self, ino: int) -> None:
        """Take note that it was read."""
        self._done.add(self._next.pop(ino))
        if later := self._later.get(ino):
            self._next[ino] = later.pop(0)

    def done_since(self, files: list[int]) -> set[int]:
        """Return the places of what was read, as counted in a window that begins later in the same order."""
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
