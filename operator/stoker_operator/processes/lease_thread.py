"""Leader election in a thread, so that no pass of the main event loop can delay a renewal of the Lease."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Final, Self, TypeVar

from stoker_kube.api import Kube
from stoker_kube.lease import LeaderElection

# Seconds from the loss of the Lease until the process is killed. The holder gives up 10 s after its last renewal, and
# another candidate waits for 15 s. So a process whose main loop is busy ends before another one leads.
FENCE = 3.0
T = TypeVar("T")


class LeaseThread:
    """A leader election with its own thread, event loop and client. Use it as an asynchronous context manager.

    ``lost`` is set in the main loop after the Lease is lost. ``kill()`` follows ``fence`` seconds later, unless the
    process has ended by then.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Kube]],
        elect: Callable[[Kube], LeaderElection],
        kill: Callable[[], object] = lambda: os._exit(1),
        fence: float = FENCE,
    ) -> None:
        """Prepare, in the main event loop; the thread calls ``connect`` and ``elect``."""
        self._connect: Final = connect
        self._elect: Final = elect
        self._kill: Final = kill
        self._fence: Final = fence
        self.lost: Final = asyncio.Event()
        self._main: Final = asyncio.get_running_loop()
        self._loop: Final = asyncio.new_event_loop()
        self._thread: Final = threading.Thread(target=self._loop.run_forever, name="lease", daemon=True)
        self._cleanup: Final = AsyncExitStack()  # of the thread

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Hand the Lease over, if it is held, and end the thread."""
        await self._run(self._cleanup.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def acquire(self) -> None:
        """Wait until the Lease is held. Raises ConfigError."""
        await self._run(self._acquire())

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _acquire(self) -> None:
        election = self._elect(await self._cleanup.enter_async_context(self._connect()))
        self._cleanup.push_async_callback(election.release)
        await election.acquire()
        watcher = asyncio.create_task(self._watch(election), name="lease lost")
        self._cleanup.callback(watcher.cancel)

    async def _watch(self, election: LeaderElection) -> None:
        await election.lost.wait()
        killer = threading.Timer(self._fence, self._kill)
        killer.daemon = True
        killer.start()
        self._main.call_soon_threadsafe(self.lost.set)
