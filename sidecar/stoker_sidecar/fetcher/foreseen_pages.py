"""Reads what a known order says is next from the disk into the page cache, ahead of readers that never come by here.

Concurrency: everything is decided on one event loop, and one round of reading runs at a time, in threads.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.core.page_room import MemoryFigures, foreseen_room, is_too_large
from stoker_sidecar.fetcher.core.upcoming_pieces import UpcomingPieces
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.foreseen_reader import ForeseenReader
from stoker_sidecar.fetcher.page_cache import PageCache
from stoker_sidecar.threads import in_thread
from stoker_sidecar.wire.fetcher_protocol import FORESEEN_BYTES, Upcoming

_log = logging.getLogger(__name__)
# Pieces of a round, and bytes, after which it is seen whether readers are elsewhere by now and what memory there is.
_ROUND, _ROUND_BYTES = 512, 128 * 1024**2
# Of what is due next, so many files are looked at now and then: where most of them are gone again, it is brought again.
_DUE = 8
# The part of the room that is left to what was read last: readers may be behind where they are reckoned to be.
_BEHIND = 4
# Seconds between two looks at what is due, and at the memory; after which readers of which nothing was told are
# forgotten; and after which those are tried again with which something was wrong.
_LOOK_AT_DUE, _LOOK, _STALE, _TRY_AGAIN = 0.1, 0.25, 60.0, 60.0


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
    ) -> int | None:
        """Take what is next of an open version. ``alone``: nobody else reads its files.

        Returns the number of the piece that readers were seen to open last; None: none was seen.
        """
        key = message.uid, message.digest, message.reader
        reader = self._readers.get(key)
        if message.ended or (reader is not None and self._is_over(reader, fetching)):
            self._forget(key)
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
        return reader.upcoming.passed if reader is not None else None

    def _forget(self, key: tuple[str, str, str]) -> None:
        reader = self._readers.pop(key, None)
        if reader is not None:
            reader.close()

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
        for key in list(self._readers):
            self._forget(key)

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
            reader.look(self._clock())
            room = await self._room(reader)
            await self._look_at(reader)
            await self._give_back(reader, room)
            most = max(1, min(_ROUND, int(_ROUND_BYTES / reader.upcoming.mean)))
            pieces = reader.upcoming.wanted(self._clock(), room, most)
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
        if not due:
            return
        if await in_thread(reader.is_lost, due):
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
                self._forget(key)
