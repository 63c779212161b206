"""Reads the next pieces of a known order from the disk into the page cache, ahead of readers of native mounts.

Concurrency: one event loop makes all decisions. One round of reading runs at a time, in threads.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.pages.core.page_room import MemoryFigures, foreseen_room, is_too_large
from stoker_sidecar.fetcher.pages.core.prefetch_queue import PrefetchQueue
from stoker_sidecar.fetcher.pages.page_cache import PageCache
from stoker_sidecar.fetcher.pages.prefetch_stream import PrefetchStream
from stoker_sidecar.threads import in_thread
from stoker_sidecar.wire.fetcher_hints import PageWindow
from stoker_sidecar.wire.fetcher_protocol import FORESEEN_BYTES

_log = logging.getLogger(__name__)
# Seconds of a round of all readers. Then memory is checked.
_ROUND_SECONDS = 0.25
# Number of due files that are checked from time to time. If most of them were evicted, they are fetched again.
_DUE = 8
# Divisor of the room for pages that were read, since readers may be behind their estimated place.
_BEHIND = 4
# Seconds between checks of due pieces, and between checks of memory. Then seconds until readers without news are
# forgotten, and until failed readers are retried.
_LOOK_AT_DUE, _LOOK, _STALE, _TRY_AGAIN = 0.1, 0.25, 60.0, 60.0


class PagePrefetcher:
    """All readers of a node with a known order. For one event loop; ``memory`` is called in threads.

    ``pages``: the page cache of other wishes, which has its share.
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
        self._readers: dict[tuple[str, str, str], PrefetchStream] = {}
        self._over: list[PrefetchStream] = []  # closed once no round and no wait uses their watches
        self._figures: tuple[float, MemoryFigures] | None = None
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def take(
        self, message: PageWindow, fetching: Fetching, is_open: Callable[[Fetching], bool], *, alone: bool = False
    ) -> int | None:
        """Take the next window of an open version. ``alone``: no other reader uses its files.

        Returns the number of the last piece that readers were seen to open; None: none was seen.
        """
        key, passed = (message.uid, message.digest, message.reader), None
        reader = self._readers.get(key)
        if message.ended or (reader is not None and self._is_over(reader, fetching)):
            self._forget(key)
            reader = None
        if not message.ended:
            if reader is None:
                info = fetching.version.manifest.info
                mean = info.bytes / max(1, info.files)
                reader = self._readers[key] = PrefetchStream(fetching, is_open, PrefetchQueue(mean))
            with reader.upcoming() as upcoming:
                upcoming.take(message, self._clock())
                passed = upcoming.passed
            reader.alone = alone
        self._news.set()
        if self._task is None and (self._readers or self._over):
            self._task = asyncio.create_task(self._work())
        return passed

    def _forget(self, key: tuple[str, str, str]) -> None:
        reader = self._readers.pop(key, None)
        if reader is not None:
            self._over.append(reader)

    def _is_over(self, reader: PrefetchStream, fetching: Fetching) -> bool:
        """Return True if the version was closed, or if a failed reader is due for a retry."""
        tried = reader.failed is not None and self._clock() - reader.failed >= _TRY_AGAIN
        return tried or reader.fetching is not fetching

    async def close(self) -> None:
        """Stop within a window of a file."""
        self._closed = True
        self._news.set()
        if self._task is not None:
            await self._task
        for key in list(self._readers):
            self._forget(key)
        self._close_those_over()

    def _close_those_over(self) -> None:
        while self._over:
            self._over.pop().close()

    async def _work(self) -> None:
        try:
            while self._readers and not self._closed:
                self._news.clear()
                self._forget_stale()
                more = [await self._bring_for(key, reader) for key, reader in list(self._readers.items())]
                if not any(more):
                    await self._rest()
                self._close_those_over()
        finally:
            self._close_those_over()
            self._task = None

    async def _bring_for(self, key: tuple[str, str, str], reader: PrefetchStream) -> bool:
        """Prefetch the wanted pieces of one reader. Return True if there were any."""
        if reader.failed is not None:
            return False
        try:
            reader.look(self._clock())
            room = await self._room(reader)
            await self._look_at(reader)
            await self._give_back(reader, room)
            with reader.upcoming() as upcoming:
                if not upcoming.is_wanting(self._clock(), room):
                    return False
            if self._readers.get(key) is not reader:  # the window was withdrawn
                return False
            seconds = _ROUND_SECONDS / len(self._readers)
            brought = await in_thread(reader.bring, room, seconds, lambda: self._closed, self._clock)
            reader.fetching.context.telemetry.add(FORESEEN_BYTES, brought)
        except (SidecarError, OSError, KeyError, ValueError) as error:
            _log.warning("pages of version %s are not read ahead for a minute: %s", key[1][:12], error)
            reader.failed = self._clock()
            return False
        return True

    async def _look_at(self, reader: PrefetchStream) -> None:
        """Fetch due pieces again that memory pressure or a program evicted."""
        now = self._clock()
        if now - reader.looked < _LOOK_AT_DUE:
            return
        reader.looked = now
        with reader.upcoming() as upcoming:
            due = upcoming.due(now, _DUE)
        if not due:
            return
        if await in_thread(reader.is_lost, due):
            with reader.upcoming() as upcoming:
                upcoming.lost(self._clock())

    async def _give_back(self, reader: PrefetchStream, room: int) -> None:
        """Drop pages that were read if the version exceeds memory.

        The kernel would need more work to find them.
        """
        reader.behind = room // _BEHIND if reader.alone and reader.too_large else None
        if reader.behind is not None:
            await in_thread(reader.give_back, self._clock())

    async def _room(self, reader: PrefetchStream) -> int:
        """Return the bytes that may be ahead of a reader now."""
        now = self._clock()
        if self._figures is None or now - self._figures[0] >= _LOOK:
            self._figures = now, await in_thread(self._memory)
        reader.too_large = is_too_large(self._figures[1], reader.size)
        others = sum(self._ahead(one, now) for one in self._readers.values() if one is not reader)
        return foreseen_room(self._figures[1], self._pages.taken + others, reader.size)

    @staticmethod
    def _ahead(reader: PrefetchStream, now: float) -> int:
        with reader.upcoming() as upcoming:
            return upcoming.ahead(now)

    async def _rest(self) -> None:
        """Wait for news, or until readers have moved."""
        now, waits = self._clock(), list[float]()
        for one in self._readers.values():
            with one.upcoming() as upcoming:
                wait = upcoming.wait(now) if one.failed is None else None
            waits += [wait] if wait is not None else []
        try:
            async with asyncio.timeout(min(waits, default=_STALE)):
                with self._waking():
                    await self._news.wait()
        except TimeoutError:
            return

    @contextmanager
    def _waking(self) -> Iterator[None]:
        """Count it as news while inside when a watched file is opened."""
        loop, now = asyncio.get_running_loop(), self._clock()
        watched = [fd for one in self._readers.values() if one.failed is None and (fd := one.look(now)) is not None]
        for fd in watched:
            loop.add_reader(fd, self._news.set)
        try:
            yield
        finally:
            for fd in watched:
                loop.remove_reader(fd)

    def _forget_stale(self) -> None:
        now = self._clock()
        for key, reader in list(self._readers.items()):
            with reader.upcoming() as upcoming:
                told = upcoming.told
            if now - told >= _STALE or not reader.is_open(reader.fetching):
                self._forget(key)
