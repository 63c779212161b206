"""What tasks of one event loop wait for: the next change, a key's lock, work that must not stop half way."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Hashable
from contextlib import asynccontextmanager

log = logging.getLogger(__name__)


class Changes:
    """Lets any number of tasks wait for the next change of something; a token taken before a look misses none."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def mark(self) -> None:
        """Wake everyone who waits: something changed."""
        self._next.set()
        self._next = asyncio.Event()

    def token(self) -> asyncio.Event:
        """Return an event that is set at the next change after now."""
        return self._next

    async def wait(self, token: asyncio.Event | None = None, timeout: float | None = None) -> bool:
        """Wait for the change of ``token`` (default: the next), at most ``timeout`` seconds; return whether it came."""
        try:
            async with asyncio.timeout(timeout):
                await (token or self._next).wait()
        except TimeoutError:
            return False
        return True


class KeyedLocks:
    """One lock a key, forgotten when nobody holds or awaits it; different keys never wait on each other."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        """Enter when no one else is inside with the same key."""
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
        """Return how many keys are in use."""
        return len(self._locks)


class Uninterrupted:
    """Runs work to its end though its caller is cancelled, such as by a kubelet that hangs up."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    async def run(self, work: Coroutine[None, None, None]) -> None:
        """Wait for ``work``, which goes on when this wait is cancelled. Raises what the work raises."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._finished)
        await asyncio.shield(task)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("a volume operation ended with: %s", error)  # also raised to the caller, if that still listens
