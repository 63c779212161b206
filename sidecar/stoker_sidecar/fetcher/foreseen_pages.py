"""Reads what a known order says is next from the disk into the page cache, ahead of readers that never come by here.

Concurrency: everything is decided on one event loop, and one round of reading runs at a time, in threads.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.cached_version import State
from stoker_sidecar.fetcher.core.page_room import MemoryFigures, foreseen_room, is_too_large
from stoker_sidecar.fetcher.core.upcoming_pieces import UpcomingPiece, UpcomingPieces
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.page_cache import PageCache, PageRange, PageReader, windows
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.fetcher_protocol import FORESEEN_BYTES, Upcoming

_log = logging.getLogger(__name__)
# Pieces of a round, after which it is seen whether readers are elsewhere by now and what memory there is; files that
# are looked at first: where all of them are in memory, so is nearly all else, and a round costs nothing.
_ROUND, _LOOKED_AT = 512, 16
# Of what is due next, so many files are looked at now and then: where most of them are gone again, it is brought again.
_DUE = 8
# The part of the room that is left to what was read last: readers may be behind where they are reckoned to be.
_BEHIND = 4
# Files at a time: those of an order are small, and each waits for its names as well.
_STREAMS = 8
# Seconds between two looks at what is due, and at the memory; after which readers of which nothing was told are
# forgotten; and after which those are tried again with which something was wrong.
_LOOK_AT_DUE, _LOOK, _STALE, _TRY_AGAIN = 0.1, 0.25, 60.0, 60.0
# Folders of a version whose paths are kept.
_MOST_FOLDERS = 65_536


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

    @property
    def size(self) -> int:
        """Bytes of the version."""
        return self.fetching.version.manifest.info.bytes

    def bring(self, pieces: list[UpcomingPiece], ended: Callable[[], bool]) -> int:
        """Have pieces in the page cache; returns the bytes that were read. Blocks. Raises SidecarError."""
        with closing(Manifest.open(self.fetching.version.paths.manifest)) as manifest:  # for the threads of this round
            look = self._ranges(manifest, pieces[:: max(1, len(pieces) // _LOOKED_AT)])
            if all(_is_in_memory(one) for one in look):
                return 0
            reader = PageReader(self._ranges(manifest, pieces), lambda brought: 2**62, ended, _STREAMS)
            reader.run()
        self.upcoming.brought(len(pieces), reader.brought)
        return reader.brought

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


class ForeseenPages:
    """All readers of a node whose order is known. For one event loop; ``memory`` is called in threads.

    ``pages``: what else is brought into the page cache, which has its share.
    """

    def __init__(
        self,
        pages: PageCache,
        memory: Callable[[], MemoryFigures],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pages = pages
        self._memory = memory
        self._clock = clock
        self._readers: dict[tuple[str, str, str], ForeseenReader] = {}
        self._figures: tuple[float, MemoryFigures] | None = None
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def take(
        self, message: Upcoming, fetching: Fetching, is_open: Callable[[Fetching], bool], *, alone: bool = False
    ) -> None:
        """Take what is next of an open version. ``alone``: nobody else reads its files."""
        key = message.uid, message.digest, message.reader
        reader = self._readers.get(key)
        if message.ended or (reader is not None and self._is_over(reader, fetching)):
            self._readers.pop(key, None)
            reader = None
        if not message.ended:
            if reader is None:
                info = fetching.version.manifest.info
                mean = info.bytes / max(1, info.files)
                reader = self._readers[key] = ForeseenReader(fetching, is_open, UpcomingPieces(mean))
            reader.upcoming.take(message, self._clock())
            reader.alone = alone
        self._news.set()
        if self._task is None and self._readers:
            self._task = asyncio.create_task(self._work())

    def _is_over(self, reader: ForeseenReader, fetching: Fetching) -> bool:
        """Tell whether a reader is of a version that was closed, or is to be tried again after trouble."""
        tried = reader.failed is not None and self._clock() - reader.failed >= _TRY_AGAIN
        return tried or reader.fetching is not fetching

    async def close(self) -> None:
        """Stop within a window of a file."""
        self._closed = True
        self._news.set()
        if self._task is not None:
            await self._task

    async def _work(self) -> None:
        try:
            while self._readers and not self._closed:
                self._news.clear()
                self._forget_stale()
                more = [await self._bring_for(key, reader) for key, reader in list(self._readers.items())]
                if not any(more):
                    await self._rest()
        finally:
            self._task = None

    async def _bring_for(self, key: tuple[str, str, str], reader: ForeseenReader) -> bool:
        """Bring what one reader wants now; returns whether that was anything."""
        if reader.failed is not None:
            return False
        try:
            room = await self._room(reader)
            await self._look_at(reader)
            await self._give_back(reader, room)
            pieces = reader.upcoming.wanted(self._clock(), room, _ROUND)
            if not pieces:
                return False
            brought = await in_thread(reader.bring, pieces, lambda: self._closed)
            reader.fetching.context.telemetry.add(FORESEEN_BYTES, brought)
        except (SidecarError, OSError, KeyError, ValueError) as error:
            _log.warning("pages of version %s are not read ahead for a minute: %s", key[1][:12], error)
            reader.failed = self._clock()
            return False
        return True

    async def _look_at(self, reader: ForeseenReader) -> None:
        """Bring again what is due and was dropped meanwhile: memory was short, or somebody dropped it."""
        now = self._clock()
        if now - reader.looked < _LOOK_AT_DUE:
            return
        reader.looked = now
        due = reader.upcoming.due(now, _DUE)
        if due and await in_thread(reader.is_lost, due):
            reader.upcoming.lost(self._clock())

    async def _give_back(self, reader: ForeseenReader, room: int) -> None:
        """Drop what was read where memory does not suffice for all: the kernel has more work with finding it."""
        if reader.alone and self._figures is not None and is_too_large(self._figures[1], reader.size):
            spent = reader.upcoming.spent(self._clock(), room // _BEHIND, _ROUND)
            if spent:
                await in_thread(reader.give_back, spent)

    async def _room(self, reader: ForeseenReader) -> int:
        """Return the bytes that may be ahead of a reader now."""
        now = self._clock()
        if self._figures is None or now - self._figures[0] >= _LOOK:
            self._figures = now, await in_thread(self._memory)
        others = sum(one.upcoming.ahead(now) for one in self._readers.values() if one is not reader)
        return foreseen_room(self._figures[1], self._pages.taken + others, reader.size)

    async def _rest(self) -> None:
        """Wait until something is told, or readers have moved on."""
        now = self._clock()
        waits = [wait for one in self._readers.values() if one.failed is None and (wait := one.upcoming.wait(now))]
        try:
            async with asyncio.timeout(min(waits, default=_STALE)):
                await self._news.wait()
        except TimeoutError:
            return

    def _forget_stale(self) -> None:
        now = self._clock()
        for key, reader in list(self._readers.items()):
            if now - reader.upcoming.told >= _STALE or not reader.is_open(reader.fetching):
                del self._readers[key]


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
