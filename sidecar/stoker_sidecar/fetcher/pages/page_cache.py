"""Reads files of the cache into the kernel's page cache before anyone asks, within the memory that there is."""

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.pages.core.page_room import MemoryFigures, page_room
from stoker_sidecar.fetcher.pages.memory_figures import cgroup_memory, machine_memory, memory_pressure
from stoker_sidecar.linux.kernel_caches import cached_bytes
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Manifest

_log = logging.getLogger(__name__)
# Bytes that a thread reads between two checks of memory. Four threads keep a fast disk busy.
_WINDOW = 8 * 2**20
_STREAMS = 4
# Bytes of one advice. The kernel caps an advice at the disk's read-ahead or largest request. This is the usual minimum.
_ADVICE = 128 * 2**10


class PageRange(NamedTuple):
    """Bytes of a file of the cache, ``length`` of them from ``offset``."""

    path: str
    offset: int
    length: int


class PageReader:
    """Brings ranges of files into the page cache, several at a time and in order, while there is room.

    ``room``: returns how many bytes may be brought after the given number. ``ended``: returns True once the pages are
    not wanted. ``streams``: threads; each waits for the range that it began ``depth`` ranges ago. ``begun`` is called
    with each range when its file was opened, in one of the threads. ``sure``: also read pages that the kernel left out.
    """

    def __init__(
        self,
        ranges: Iterable[PageRange],
        room: Callable[[int], int],
        ended: Callable[[], bool] = lambda: False,
        streams: int = _STREAMS,
        depth: int = 0,
        begun: Callable[[PageRange], None] = lambda one: None,
        sure: bool = False,
    ) -> None:
        self._ranges = iter(ranges)
        self._begun = begun
        self._sure = sure
        self._room = room
        self._ended = ended
        self._streams = streams
        self._depth = depth
        self._lock = threading.Lock()
        self.brought = 0
        self.short = False  # whether it stopped since there was no room

    def run(self) -> None:
        """Read all ranges that may be read, and return when they are in memory.

        Blocks. Raises the errors of ``ranges``.
        """
        with ThreadPoolExecutor(self._streams, thread_name_prefix="pages") as pool:
            for done in [pool.submit(self._work) for _ in range(self._streams)]:
                done.result()

    def _work(self) -> None:
        begun: deque[tuple[PageRange, int]] = deque()
        try:
            while (one := self._next()) is not None:
                with _overlooked(one):
                    begun.append((one, _begin(one)))
                    self._begun(one)
                if len(begun) > self._depth:
                    self._finish(*begun.popleft())
        finally:
            while begun:
                self._finish(*begun.popleft())

    def _finish(self, one: PageRange, fd: int) -> None:
        if self._sure:
            with _overlooked(one):
                _read_rest(one, fd)
        _end(one, fd)

    def _next(self) -> PageRange | None:
        with self._lock:
            if self.short or self._ended() or (one := next(self._ranges, None)) is None:
                return None
            if one.length > self._room(self.brought):
                self.short = True
                return None
            self.brought += one.length
            return one


def _begin(one: PageRange) -> int:
    """Ask the kernel to read a range. Return the open file. Raises OSError.

    Advice makes no copy. It takes half the CPU of reading.
    """
    fd = os.open(one.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    end = one.offset + one.length
    for offset in range(one.offset, end, _ADVICE):
        os.posix_fadvise(fd, offset, min(_ADVICE, end - offset), os.POSIX_FADV_WILLNEED)
    return fd


def _read_rest(one: PageRange, fd: int) -> None:
    """Read a range that is only partly in memory. Raises OSError.

    Under memory pressure, the kernel may silently ignore a part of an advice.
    """
    cached = cached_bytes(fd, one.offset, one.length)
    if cached is None or cached >= one.length:
        return
    buffer = bytearray(_ADVICE)
    for offset in range(one.offset, one.offset + one.length, _ADVICE):
        os.preadv(fd, [buffer], offset)


def _end(one: PageRange, fd: int) -> None:
    """Wait for the end of a range, and close its file: the byte that is read last is there when the rest is."""
    try:
        with _overlooked(one):
            os.pread(fd, 1, max(one.offset, one.offset + one.length - 1))
    finally:
        os.close(fd)


@contextmanager
def _overlooked(one: PageRange) -> Iterator[None]:
    """Ignore a range that is missing or damaged. Its reader gets the error."""
    try:
        yield
    except OSError as error:
        _log.debug("%s is not read into the page cache: %s", one.path, error)


def windows(path: str, size: int) -> Iterator[PageRange]:
    """Divide a file into ranges of a window each."""
    for offset in range(0, size, _WINDOW):
        yield PageRange(path, offset, min(_WINDOW, size - offset))


def ranges_of(paths: VersionPaths, marks: Iterable[bytes]) -> Iterator[PageRange]:
    """List the ranges of a version's marked files (1 in a byte an inode), the first marks first.

    Raises ManifestInvalid.
    """
    tree = str(paths.tree)
    with closing(Manifest.open(paths.manifest)) as manifest:
        for mark in marks:
            ino = mark.find(1)
            while ino >= 0:
                entry = manifest.entry(ino)
                if entry is not None and not entry.is_dir:
                    yield from windows(f"{tree}/{manifest.path_of(entry)}", entry.size)
                ino = mark.find(1, ino + 1)


@dataclass(frozen=True)
class PageWish:
    """Files of a version that belong in the page cache.

    ``marks``: a byte an inode, 1 for each of the files; the first marks go first. ``wanted``: returns True while the
    wish holds; threads call it. ``count``: receives the number of bytes read, at the end. ``purpose``: separates wishes
    for one version; each is fulfilled. ``failed``: called if the wish fails.
    """

    paths: VersionPaths
    marks: tuple[bytes, ...]
    wanted: Callable[[], bool]
    count: Callable[[int], None]
    purpose: str = ""
    failed: Callable[[], None] = lambda: None


def memory_now() -> MemoryFigures:
    """Return the figures of the machine and of this cgroup. Raises OSError, KeyError, ValueError."""
    total, available = machine_memory()
    limit, bound = cgroup_memory() or (None, 0)
    return MemoryFigures(total, available, limit, bound, memory_pressure())


class PageCache:
    """Fulfills wishes in sequence; for one event loop. Pages of versions count while they are mounted.

    ``memory``: returns the memory figures; threads call it.
    """

    def __init__(self, memory: Callable[[], MemoryFigures]) -> None:
        self._memory = memory
        self._wishes: dict[tuple[VersionPaths, str], PageWish] = {}
        self._taken: dict[tuple[VersionPaths, str], tuple[int, Callable[[], bool]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def want(self, wish: PageWish) -> None:
        """Read files into the page cache soon. A waiting wish for the same purpose is replaced."""
        self._wishes[wish.paths, wish.purpose] = wish
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    @property
    def taken(self) -> int:
        """Bytes that were brought for versions that are still mounted."""
        return sum(taken for taken, wanted in self._taken.values() if wanted())

    async def close(self) -> None:
        """Stop within a window."""
        self._closed = True
        if self._task is not None:
            await self._task

    async def _work(self) -> None:
        while self._wishes and not self._closed:
            wish = self._wishes.pop(next(iter(self._wishes)))
            try:
                await self._fulfil(wish)
            except (SidecarError, OSError, KeyError, ValueError) as error:
                _log.warning("files of %s are not read into the page cache: %s", wish.paths.folder, error)
                wish.failed()
        self._task = None

    async def _fulfil(self, wish: PageWish) -> None:
        key = wish.paths, wish.purpose
        self._taken = {other: one for other, one in self._taken.items() if one[1]() and other != key}
        others = sum(taken for taken, _ in self._taken.values())
        reader = PageReader(
            ranges_of(wish.paths, wish.marks),
            lambda brought: page_room(self._memory(), others + brought),
            lambda: self._closed or not wish.wanted(),
            sure=True,
        )
        await in_thread(reader.run)
        self._taken[key] = reader.brought, wish.wanted
        wish.count(reader.brought)
        short = ": there is no memory for more" if reader.short else ""
        name = wish.paths.folder.name[:12]
        _log.info("version %s: %.1f MiB are in the page cache%s", name, reader.brought / 2**20, short)
