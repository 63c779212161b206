"""Room for small files that are read again in the next epoch.

Files without a read before the epoch after it are evicted.
"""

import zlib
from collections.abc import Iterator

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.parts import is_whole
from stoker_sidecar.fetcher.ondisk.version_tuning import VersionTuning
from stoker_sidecar.fetcher.space.budget import VersionSpace
from stoker_sidecar.fetcher.space.partial_eviction import is_alone
from stoker_sidecar.version.manifest import Entry

# Of a file: it is read in the rest of this epoch, and in the next one.
NOW, NEXT = 1, 2
_BOTH = NOW | NEXT
_UNUSED = bytes(not mark for mark in range(256))
# Bytes of one reader's marks, one an inode: more than any followed version has. Then the number of readers.
_MOST_INODES = 32 * 1024**2
_MOST_READERS = 16


class ReturningFiles:
    """The files that the readers of one version read until the end of the next epoch, by their latest hints."""

    def __init__(self) -> None:
        self._readers: dict[str, bytes] = {}
        self._marks = b""  # of all readers together

    def tell(self, reader: str, files: bytes) -> None:
        """Set a reader's marks, a byte an inode by zlib; empty: unknown.

        Raises ProtocolError.
        """
        self._readers.pop(reader, None)
        if files:
            self._readers[reader] = _unpacked(files)
        while len(self._readers) > _MOST_READERS:
            del self._readers[next(iter(self._readers))]
        length = max(map(len, self._readers.values()), default=0)
        marks = 0
        for one in self._readers.values():
            marks |= int.from_bytes(one.ljust(length, b"\0"))
        self._marks = marks.to_bytes(length)

    def comes_twice(self, ino: int) -> bool:
        """Return True if a file is read in this epoch and in the next one.

        If it is kept now, the next epoch finds it.
        """
        return ino < len(self._marks) and self._marks[ino] & _BOTH == _BOTH

    def idle(self, here: bytes) -> Iterator[int]:
        """Yield the files that no reader needs before the epoch after the next one, the last inode first.

        ``here``: a byte an inode, 1 where the file is here. Without hints, no file is known to be idle.
        """
        if not self._readers:
            return
        unused = self._marks[: len(here)].ljust(len(here), b"\0").translate(_UNUSED)
        found = (int.from_bytes(here) & int.from_bytes(unused)).to_bytes(len(here))
        ino = len(found)
        while (ino := found.rfind(1, 0, ino)) > 0:
            yield ino


def _unpacked(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        marks = unpacking.decompress(packed, _MOST_INODES)
    except zlib.error as error:
        raise ProtocolError(f"the files of a returning request cannot be unpacked: {error}") from error
    if not unpacking.eof or unpacking.unused_data:
        raise ProtocolError(f"the files of a returning request are not whole, or more than {_MOST_INODES} inodes")
    return marks


# Files that leave for one: a millisecond of the event loop.
_MOST_LEAVING = 8
_HERE = bytes(state == State.HERE for state in range(256))


class NextEpochRoom:
    """The room of one version, by the hints of its readers until the end of the next epoch."""

    def __init__(self, version: CachedVersion, space: VersionSpace) -> None:
        self._version = version
        self._space = space
        self._files = ReturningFiles()
        self._idle: Iterator[int] | None = None  # since the last hint; None: no search was made
        self._found: list[Entry] = []  # the next idle files

    def tell(self, reader: str, files: bytes) -> None:
        """Set the marks of a reader: see ReturningFiles. Raises ProtocolError."""
        self._files.tell(reader, files)
        self._idle, self._found = None, []

    def make_room(self, entry: Entry, tuning: VersionTuning) -> bool:
        """Evict idle files for a file that is read again. Return True if it fits now.

        A file with a higher keep rank is not evicted for one with a lower rank. Blocks for a moment.
        """
        knobs = tuning.of(entry.ino)
        if not (knobs.cached and knobs.reused) or not self._files.comes_twice(entry.ino):
            return False
        leaving = self._leaving(self._lacking(entry.size))
        if any(tuning.of(one.ino).keep > knobs.keep for one in leaving):
            return False
        try:
            for one in leaving:
                self._version.give_up(one.ino, lambda path: path.unlink(missing_ok=True))
        except OSError:  # the writer reports a failing disk
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
        """Return idle files of at least ``lacking`` bytes. Empty if they are too few or too many."""
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
        """Return another idle file whose bytes its removal frees. None if there are no more."""
        if self._idle is None:
            self._idle = self._files.idle(bytes(self._version.states).translate(_HERE))
        for ino in self._idle:
            entry = self._version.manifest.entry(ino)
            if entry is not None and is_whole(entry.size) and is_alone(self._version.tree_path(entry)):
                return entry
        return None
