"""Server-sent events: one event for each change of the shown objects, at most one per second."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

HEARTBEAT = 15.0  # seconds, so that a closed connection is noticed
PACE = 1.0  # seconds between two events
MOST_STREAMS = 16


class Revisions(Protocol):
    """A count of changes."""

    async def changed(self, since: int) -> int:
        """Wait for a revision other than ``since``, and return it."""


class LiveUpdates:
    """The open event streams. After ``ended``, they end at their next event."""

    def __init__(
        self,
        source: Revisions,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        ended: Callable[[], bool] = lambda: False,
    ) -> None:
        self._source = source
        self._ended = ended
        self._sleep = sleep
        self._open = 0

    @property
    def full(self) -> bool:
        """True if no more streams can be opened."""
        return self._open >= MOST_STREAMS

    async def stream(self, revision: int) -> AsyncIterator[str]:
        """Yield events until the client disconnects. ``revision``: that of the page, which may be old already."""
        self._open += 1
        try:
            while not self._ended():
                latest = await self._next(revision)
                yield ": alive\n\n" if latest == revision else f"event: change\ndata: {latest}\n\n"
                revision = latest
                await self._sleep(PACE)
        finally:
            self._open -= 1

    async def _next(self, revision: int) -> int:
        try:
            async with asyncio.timeout(HEARTBEAT):
                return await self._source.changed(revision)
        except TimeoutError:
            return revision
