"""One reader's files in the page cache: which of them are there, how they are brought, and given back."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain

from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.pages.core.open_watchpoints import STRIDE
from stoker_sidecar.fetcher.pages.core.prefetch_queue import NumberedPiece, PrefetchQueue
from stoker_sidecar.fetcher.pages.inotify import OpeningWatch
from stoker_sidecar.fetcher.pages.page_cache import PageRange, PageReader, windows
from stoker_sidecar.version.manifest import Entry, Manifest

_log = logging.getLogger(__name__)
# Pieces requested at a time. One in ``_LOOKED_AT`` files is checked before the rest is read, with a minimum of two. If
# the checked files are in memory, nearly all files are. If the version exceeds memory, some files are there by chance.
# With half of them in memory, two checked files are there in one case of four, and eight in one of 250. The minimum is
# then eight.
_BATCH, _LOOKED_AT, _FEWEST, _FEWEST_OF_LARGE = 32, 32, 2, 8
# Bytes of a round, after which memory is checked. Then seconds that it waits for readers to advance, and between two
# checks of them.
_ROUND_BYTES, _IDLE, _TICK = 256 * 1024**2, 0.02, 0.002
# Threads: one works while the second waits for names that are not in memory. Then the files that each has begun and
# that the disk reads in parallel. One thread brought 14,200 to 17,900 files of 100 KiB a second with 32 in parallel,
# and 32 us of CPU each. Eight threads that waited for each file brought 10,900 to 12,900, with 56 to 86 us.
_STREAMS, _DEPTH = 2, 32
# Maximum pieces given back at a time, while no prefetch runs.
_GIVEN_BACK = 512
# Maximum number of watched files of a reader. A user may have 8,192 or more watches (fs.inotify.max_user_watches).
_MOST_FOLDERS = 65_536
# Files of a reader whose opening is watched at a time. A user may have 8,192 or more (fs.inotify.max_user_watches).
_MOST_WIRES = 1024


class PrefetchStream:
    """Readers of one order on one version. ``is_open``: whether the version is still open so.

    ``bring``, ``give_back`` and ``is_lost`` run in a thread, one at a time, while other methods may be called.
    """

    def __init__(self, fetching: Fetching, is_open: Callable[[Fetching], bool], upcoming: PrefetchQueue) -> None:
        self.fetching = fetching
        self.is_open = is_open
        self.alone = False  # no other reader uses its files
        self.too_large = False  # memory does not suffice for all of its version
        self.behind: int | None = None  # bytes of read pages that stay; None: no pages are given back
        self.failed: float | None = None  # when something was wrong with it
        self.looked = 0.0  # time of the last check of due pieces
        self._upcoming = upcoming
        self._lock = threading.Lock()  # of ``_upcoming`` and ``_watch``
        self._folders: dict[int, str] = {}
        self._watch: OpeningWatch | None = None
        self._begun = 0  # restart of ``_upcoming`` that the watches belong to

    @property
    def size(self) -> int:
        """Bytes of the version."""
        return self.fetching.version.manifest.info.bytes

    @property
    def fewest(self) -> int:
        """Minimum number of checked files before the rest counts as in memory."""
        return _FEWEST_OF_LARGE if self.too_large else _FEWEST

    @contextmanager
    def upcoming(self) -> Iterator[PrefetchQueue]:
        """Lock the queue while inside, for some microseconds."""
        with self._lock:
            yield self._upcoming

    def look(self, now: float) -> int | None:
        """Check which of the watched files were opened since the last check. Raises OSError.

        Returns a descriptor that becomes readable at the next opening. None without a watch.
        """
        with self._lock:
            if self._begun != self._upcoming.begun:
                self._end_watch()
                self._begun = self._upcoming.begun
            if self._watch is None:
                return None
            self._upcoming.opened(self._watch.opened(), now)
            return self._watch.fileno()

    def close(self) -> None:
        """Stop watching. The stream can continue later."""
        with self._lock:
            self._end_watch()

    def bring(self, room: int, seconds: float, ended: Callable[[], bool], clock: Callable[[], float]) -> int:
        """Prefetch pieces as readers advance, for ``seconds`` at most. Return the bytes that were read. Blocks.

        Raises SidecarError and OSError.
        """
        with closing(Manifest.open(self.fetching.version.paths.manifest)) as manifest:  # for the threads of this round
            self._scout(manifest)
            stream = _Round(self, manifest, room, clock() + seconds, clock)
            reader = PageReader(stream.ranges(), lambda brought: 2**62, ended, _STREAMS, _DEPTH, stream.wire)
            reader.run()
        with self._lock:
            self._upcoming.brought(stream.pieces, reader.brought)
        return reader.brought

    def wanted(self, now: float, room: int) -> list[NumberedPiece]:
        """Return the pieces to prefetch now.

        Their watches are removed, since the prefetch opens the files. Raises OSError.
        """
        self.look(now)
        with self._lock:
            pieces = self._upcoming.wanted(now, room, _BATCH)
            for number in self._upcoming.unwire(pieces):
                if self._watch is not None:
                    self._watch.remove(number)
        return pieces

    def wire(self, path: str, number: int) -> None:
        """Watch the file of a piece, if its next opening is that of this piece."""
        with self._lock:
            if self._begun != self._upcoming.begun or not self._upcoming.tells(number):
                return
            if self._watch is None:
                self._watch = self._new_watch()
            if self._watch is not None and len(self._watch) < _MOST_WIRES and self._watch.add(path, number):
                self._upcoming.wire(number)

    def _scout(self, manifest: Manifest) -> None:
        with self._lock:
            scouts = [piece for piece in self._upcoming.scouts() if piece.is_file]
        for piece in scouts:
            for one in self.ranges(manifest, [piece])[:1]:
                self.wire(one.path, piece.number)

    def _new_watch(self) -> OpeningWatch | None:
        try:
            return OpeningWatch()
        except OSError as error:
            _log.debug("no files can be watched: %s", error)
            return None

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def give_back(self, now: float) -> None:
        """Drop pages of pieces that have been read, of some at a time. Blocks for some ms. Raises SidecarError."""
        with closing(Manifest.open(self.fetching.version.paths.manifest)) as manifest:
            self.give_back_by(manifest, now)

    def give_back_by(self, manifest: Manifest, now: float) -> None:
        """Do the same by a manifest that is open. Raises SidecarError."""
        with self._lock:
            spent = self._upcoming.spent(now, self.behind, _GIVEN_BACK) if self.behind is not None else []
        for one in self.ranges(manifest, spent):
            _give_back(one)

    def is_lost(self, pieces: Sequence[NumberedPiece]) -> bool:
        """Return True if most of these were evicted from memory. Blocks. Raises SidecarError."""
        with closing(Manifest.open(self.fetching.version.paths.manifest)) as manifest:
            found = [_is_in_memory(one) for one in self.ranges(manifest, pieces)]
        return 2 * sum(found) < len(found)

    def ranges(self, manifest: Manifest, pieces: Sequence[NumberedPiece]) -> list[PageRange]:
        """Return the ranges of pieces that are on the disk and that no rule leaves out. Raises SidecarError."""
        return list(chain.from_iterable(self.ranges_of_each(manifest, pieces)))

    def ranges_of_each(self, manifest: Manifest, pieces: Sequence[NumberedPiece]) -> list[list[PageRange]]:
        """Return the same for each of the pieces: none, one, or some of a large file. Raises SidecarError."""
        states, tuning = self.fetching.version.states, self.fetching.tuning
        inos = {one.ino for one in pieces if one.ino < len(states) and states[one.ino] == State.HERE}
        entries = manifest.entries_of([ino for ino in inos if tuning.of(ino).foreseen])
        return [self._ranges_of(manifest, one, entries.get(one.ino)) for one in pieces]

    def _ranges_of(self, manifest: Manifest, piece: NumberedPiece, entry: Entry | None) -> list[PageRange]:
        if entry is None or piece.offset >= entry.size:
            return []
        path = f"{self.fetching.version.paths.tree}{self._folder(manifest, entry.parent)}/{entry.name.decode()}"
        if piece.length:
            return [PageRange(path, piece.offset, min(piece.length, entry.size - piece.offset))]
        return list(windows(path, entry.size))

    def _folder(self, manifest: Manifest, ino: int) -> str:
        """Return a folder's path, each part of it behind a slash."""
        path = self._folders.get(ino)
        if path is None:
            if len(self._folders) >= _MOST_FOLDERS:
                self._folders.clear()
            path = self._folders[ino] = f"/{manifest.path(ino)}".rstrip("/")
        return path


class _Round:
    """The ranges of one round, while readers move on: until it has lasted long enough, or they have not for a while."""

    def __init__(
        self, reader: PrefetchStream, manifest: Manifest, room: int, end: float, clock: Callable[[], float]
    ) -> None:
        self._reader = reader
        self._manifest = manifest
        self._room = room
        self._end = end
        self._clock = clock
        self._wires: dict[str, int] = {}
        self.pieces = 0

    def ranges(self) -> Iterator[PageRange]:
        """Yield them; waits in between. Raises SidecarError and OSError."""
        size, moved = 0, self._clock()
        while (now := self._clock()) < self._end and now - moved <= _IDLE and size < _ROUND_BYTES:
            self._reader.give_back_by(self._manifest, now)
            pieces = self._reader.wanted(now, self._room)
            if not pieces:
                time.sleep(_TICK)
                continue
            moved = now
            for one in self._missing(pieces):
                size += one.length
                yield one

    def wire(self, one: PageRange) -> None:
        """Watch a wired file from now on: it was opened here, and a reader may open it next."""
        number = self._wires.pop(one.path, None)
        if number is not None:
            self._reader.wire(one.path, number)

    def _missing(self, pieces: Sequence[NumberedPiece]) -> list[PageRange]:
        """Return the ranges of pieces, or none if they seem to be in memory."""
        found = self._reader.ranges_of_each(self._manifest, pieces)
        step = max(1, min(_LOOKED_AT, len(pieces) // self._reader.fewest))
        if all(_is_in_memory(one) for ranges in found[::step] for one in ranges):
            return []
        self.pieces += len(pieces)
        for piece, ranges in zip(pieces, found, strict=True):
            if piece.is_file and not piece.number % STRIDE and ranges:
                self._wires[ranges[0].path] = piece.number
        return list(chain.from_iterable(found))


def _give_back(one: PageRange) -> None:
    """Let the kernel drop unmapped pages. Skip a file that cannot be opened."""
    with suppress(OSError):
        fd = os.open(one.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.posix_fadvise(fd, one.offset, one.length, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def _is_in_memory(one: PageRange) -> bool:
    """Return True if the last byte of a range can be read without the disk.

    Also True if the file cannot be read, or if its file system cannot answer, as one in memory.
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
