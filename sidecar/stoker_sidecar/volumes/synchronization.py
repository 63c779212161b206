"""Synchronization of tasks in one event loop: change notification, locks by key, uninterrupted work."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Hashable
from contextlib import asynccontextmanager

log = logging.getLogger(__name__)


class Changes:
    """Lets any number of tasks wait for the next change. A token from before a check misses no change."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def mark(self) -> None:
        """Wake all waiting tasks after a change."""
        self._next.set()
        self._next = asyncio.Event()

    def token(self) -> asyncio.Event:
        """Return an event that is set at the next change."""
        return self._next

    async def wait(self, token: asyncio.Event | None = None, timeout: float | None = None) -> bool:
        """Wait for the change of ``token`` (default: the next), at most ``timeout`` seconds. Return True if it came."""
        try:
            async with asyncio.timeout(timeout):
                await (token or self._next).wait()
        except TimeoutError:
            return False
        return True


class KeyedLocks:
    """One lock per key, forgotten without a holder or waiter. Different keys never wait for each other."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        """Enter when no other task is inside with the same key."""
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(key)
            if users > 1:
                self._locks[key] = (lock, users - 1)

    def __len__(self) -> int:
        """Return the number of keys in use."""
        return len(self._locks)


class Uninterrupted:
    """Finishes work even if its caller is cancelled, for example when the kubelet hangs up."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    async def run(self, work: Coroutine[None, None, None]) -> None:
        """Wait for ``work``, which continues if this wait is cancelled. Raises the errors of the work."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._finished)
        await asyncio.shield(task)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("a volume operation ended with: %s", error)  # also raised to the caller if it still waits
