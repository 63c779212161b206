"""Room for small files that come again in the next epoch: those that do not come before the one after it leave."""

from collections.abc import Iterator

from stoker_sidecar.fetcher.cached_version import CachedVersion, State
from stoker_sidecar.fetcher.core.returning_files import ReturningFiles
from stoker_sidecar.fetcher.core.version_tuning import VersionTuning
from stoker_sidecar.fetcher.download.parts import is_whole
from stoker_sidecar.fetcher.space.budget import VersionSpace
from stoker_sidecar.fetcher.space.making_way import is_alone
from stoker_sidecar.version.manifest import Entry

# Files that leave for one: a millisecond of the event loop.
_MOST_LEAVING = 8
_HERE = bytes(state == State.HERE for state in range(256))


class NextEpochRoom:
    """The room of one version, as far as what its readers read until the end of the next epoch is known."""

    def __init__(self, version: CachedVersion, space: VersionSpace) -> None:
        self._version = version
        self._space = space
        self._files = ReturningFiles()
        self._idle: Iterator[int] | None = None  # since the last word of a reader; None: not looked for yet
        self._found: list[Entry] = []  # of those, what may leave next

    def tell(self, reader: str, files: bytes) -> None:
        """Take what a reader reads: see ReturningFiles. Raises ProtocolError."""
        self._files.tell(reader, files)
        self._idle, self._found = None, []

    def make_room(self, entry: Entry, tuning: VersionTuning) -> bool:
        """Have idle files leave for one that is about to be fetched and comes again; return whether it fits now.

        Files that rules keep first make way for none that matters less. Blocks for a moment.
        """
        knobs = tuning.of(entry.ino)
        if not knobs.cached or not self._files.comes_twice(entry.ino):
            return False
        leaving = self._leaving(self._lacking(entry.size))
        if any(tuning.of(one.ino).keep > knobs.keep for one in leaving):
            return False
        try:
            for one in leaving:
                self._version.give_up(one.ino, lambda path: path.unlink(missing_ok=True))
        except OSError:  # a disk that fails is told by whoever writes to it
            return False
        del self._found[: len(leaving)]
        self._space.disk.forget()
        return self._space.room().admits(entry.size)

    def _lacking(self, size: int) -> int:
        """Return the bytes that have to leave so that a file fits."""
        room = self._space.room()
        of_quota = 0 if room.quota is None else room.used + size - room.quota
        return max(of_quota, size - room.free, 0 if room.inodes > 0 else 1)

    def _leaving(self, lacking: int) -> list[Entry]:
        """Return idle files of so many bytes; none where there are not enough, or too many would have to leave."""
        total = 0
        for place in range(_MOST_LEAVING):
            if place == len(self._found):
                if (one := self._next()) is None:
                    return []
                self._found.append(one)
            total += self._found[place].size
            if total >= lacking:
                return self._found[: place + 1]
        return []

    def _next(self) -> Entry | None:
        """Return another idle file whose bytes would be free when it left; None: there is none."""
        if self._idle is None:
            self._idle = self._files.idle(bytes(self._version.states).translate(_HERE))
        for ino in self._idle:
            entry = self._version.manifest.entry(ino)
            if entry is not None and is_whole(entry.size) and is_alone(self._version.tree_path(entry)):
                return entry
        return None
