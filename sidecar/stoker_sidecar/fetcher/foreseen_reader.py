"""One reader's files in the page cache: which of them are there, how they are brought, and given back."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial

from stoker_sidecar.fetcher.cached_version import State
from stoker_sidecar.fetcher.core.trip_wires import STRIDE
from stoker_sidecar.fetcher.core.upcoming_pieces import UpcomingPiece, UpcomingPieces
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.page_cache import PageRange, PageReader, windows
from stoker_sidecar.linux.inotify import OpeningWatch
from stoker_sidecar.version.manifest import Manifest

_log = logging.getLogger(__name__)
# Of so many files one is looked at before others are brought, and four at least: where all of those are in memory, so is
# nearly all else.
_LOOKED_AT, _FEWEST = 32, 4
# Threads, one of which goes on while the other waits for names that are not in memory; and files that each has begun
# and that the disk reads at the same time. One thread brought 14,200 to 17,900 files of 100 KiB a second with 32 under
# way, and 32 us of CPU each; eight that waited for each file 10,900 to 12,900, with 56 to 86 us.
_STREAMS, _DEPTH = 2, 32
# Folders of a version whose paths are kept.
_MOST_FOLDERS = 65_536
# Files of a reader whose opening is watched at a time. A user may have 8,192 or more (fs.inotify.max_user_watches).
_MOST_WIRES = 1024


@dataclass
class ForeseenReader:
    """Readers of one order on one version. ``is_open``: whether the version is still open so."""

    fetching: Fetching
    is_open: Callable[[Fetching], bool]
    upcoming: UpcomingPieces
    failed: float | None = None  # when something was wrong with it
    alone: bool = False  # nobody else reads its files
    looked: float = 0.0  # when it was looked whether what is due is still there
    _folders: dict[int, str] = field(default_factory=dict)
    _watch: OpeningWatch | None = None
    _begun: int = 0  # of ``upcoming``, of which the watched files are

    @property
    def size(self) -> int:
        """Bytes of the version."""
        return self.fetching.version.manifest.info.bytes

    def look(self, now: float) -> None:
        """See which of the watched files were opened since the last look. Raises OSError."""
        if self._begun != self.upcoming.begun:
            self.close()
            self._begun = self.upcoming.begun
        if self._watch is not None:
            self.upcoming.opened(self._watch.opened(), now)

    def close(self) -> None:
        """Watch nothing any more; it may go on."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def bring(self, pieces: list[UpcomingPiece], ended: Callable[[], bool]) -> int:
        """Have the pieces that were wanted last in memory; returns the bytes that were read. Blocks.

        Raises SidecarError.
        """
        with closing(Manifest.open(self.fetching.version.paths.manifest)) as manifest:  # for the threads of this round
            step = max(1, min(_LOOKED_AT, len(pieces) // _FEWEST))
            if all(_is_in_memory(one) for one in self._ranges(manifest, pieces[::step])):
                return 0
            wires, laid = self._wires(manifest, pieces), list[int]()
            begun = partial(self._wire, wires, laid)
            ranges = self._ranges(manifest, pieces)
            reader = PageReader(ranges, lambda brought: 2**62, ended, _STREAMS, _DEPTH, begun)
            reader.run()
        for number in sorted(laid):
            self.upcoming.wire(number)
        self.upcoming.brought(len(pieces), reader.brought)
        return reader.brought

    def _wires(self, manifest: Manifest, pieces: list[UpcomingPiece]) -> dict[str, int]:
        """Return which files are to be watched, when they were opened here: their numbers by path."""
        if self._watch is None:
            try:
                self._watch = OpeningWatch()
            except OSError as error:
                _log.debug("no files can be watched: %s", error)
                return {}
        first, found = self.upcoming.next - len(pieces), dict[str, int]()
        for place in range(-first % STRIDE, len(pieces), STRIDE):
            piece = pieces[place]
            if not piece.length and not piece.offset and len(self._watch) + len(found) < _MOST_WIRES:
                found |= {one.path: first + place for one in self._ranges(manifest, [piece])}
        return found

    def _wire(self, wires: dict[str, int], laid: list[int], one: PageRange) -> None:
        """Watch a file that is to be: from now on, as it was opened here and may be opened by a reader at once."""
        number = wires.pop(one.path, None)
        if number is not None and self._watch is not None and self._watch.add(one.path, number):
            laid.append(number)

    def give_back(self, pieces: list[UpcomingPiece]) -> None:
        """Drop pages of pieces that have been read. Blocks. Raises SidecarError."""
        with closing(Manifest.open(self.fetching.version.paths.manifest)) as manifest:
            for one in self._ranges(manifest, pieces):
                _give_back(one)

    def is_lost(self, pieces: list[UpcomingPiece]) -> bool:
        """Tell whether most of these are in memory no more. Blocks. Raises SidecarError."""
        with closing(Manifest.open(self.fetching.version.paths.manifest)) as manifest:
            found = [_is_in_memory(one) for one in self._ranges(manifest, pieces)]
        return 2 * sum(found) < len(found)

    def _ranges(self, manifest: Manifest, pieces: list[UpcomingPiece]) -> Iterator[PageRange]:
        """Yield where pieces lie that are on the disk, and that no rule leaves out. Raises SidecarError."""
        version, tuning = self.fetching.version, self.fetching.tuning
        for ino, length, offset in pieces:
            here = ino < len(version.states) and version.states[ino] == State.HERE
            entry = manifest.entry(ino) if here and tuning.of(ino).foreseen else None
            if entry is None or offset >= entry.size:
                continue
            path = f"{version.paths.tree}{self._folder(manifest, entry.parent)}/{entry.name.decode()}"
            if length:
                yield PageRange(path, offset, min(length, entry.size - offset))
            else:
                yield from windows(path, entry.size)

    def _folder(self, manifest: Manifest, ino: int) -> str:
        """Return a folder's path, each part of it behind a slash."""
        path = self._folders.get(ino)
        if path is None:
            if len(self._folders) >= _MOST_FOLDERS:
                self._folders.clear()
            path = self._folders[ino] = f"/{manifest.path(ino)}".rstrip("/")
        return path


def _give_back(one: PageRange) -> None:
    """Have the kernel drop pages that nobody has mapped; a file that cannot be opened has none."""
    with suppress(OSError):
        fd = os.open(one.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.posix_fadvise(fd, one.offset, one.length, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def _is_in_memory(one: PageRange) -> bool:
    """Tell whether the last byte of a range can be had without the disk.

    So, too, where the file cannot be read, and where its file system cannot tell, as one in memory.
    """
    try:
        fd = os.open(one.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return True
    try:
        os.preadv(fd, [bytearray(1)], one.offset + one.length - 1, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        os.close(fd)
    return True
