"""A level-triggered reconcile loop: many wake-ups become one pass, a failed pass is tried again, deadlines are kept."""

import asyncio
import logging
from typing import Final, Protocol

from stoker_api.backoff import Backoff
from stoker_kube.errors import KubeError
from stoker_operator import metrics
from stoker_operator.reconcilers.keyed_work import KeyedWork

log = logging.getLogger(__name__)


class LevelTriggered(Protocol):
    """What a loop runs: passes that decide and wait for nothing, and the work that they hand in."""

    @property
    def work(self) -> KeyedWork:
        """The work, which calls for a pass when something came of it."""

    async def reconcile(self) -> float | None:
        """Run one pass; gives the seconds after which it wants to run again even if nothing changes, or None."""


FIRST_RETRY = 0.5  # seconds: a conflict or a short API outage is over by then
LAST_RETRY = 30.0  # seconds: keeps an operator without API server quiet


class ReconcileLoop:
    """A loop that makes passes after ``wake()``, with ``interval`` seconds or a pass's own time between two."""

    def __init__(self, name: str, reconciler: LevelTriggered, interval: float) -> None:
        self.name: Final = name
        self._reconciler: Final = reconciler
        self._interval: Final = interval
        self._awake: Final = asyncio.Event()
        self._awake.set()
        reconciler.work.listen(self.wake)

    def wake(self) -> None:
        """Ask for a pass soon. Cheap, never blocks."""
        self._awake.set()

    async def run(self) -> None:
        """Loop until cancelled; what is under way then is cut off."""
        try:
            await self._passes()
        finally:
            await self._reconciler.work.close()

    async def _passes(self) -> None:
        backoff = Backoff(FIRST_RETRY, LAST_RETRY)
        while True:
            self._awake.clear()
            began = asyncio.get_running_loop().time()
            try:
                again = await self._timed_pass()
                backoff.reset()
            except Exception as error:  # the boundary of the pass: it must not end the process
                retry = backoff.next()
                unexpected = None if isinstance(error, KubeError) else error
                log.warning("%s pass failed, trying again in %.1f s: %s", self.name, retry, error, exc_info=unexpected)
                metrics.RECONCILE_ERRORS.labels(self.name).inc()
                self._awake.set()
                await asyncio.sleep(retry)
                continue
            # As long as the pass took: half of the time is left for writes and the Lease, however many objects exist.
            await asyncio.sleep(max(self._interval, asyncio.get_running_loop().time() - began))
            await self._wait(again)

    async def _timed_pass(self) -> float | None:
        with metrics.RECONCILE_SECONDS.labels(self.name).time():
            return await self._reconciler.reconcile()

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._awake.wait()
        except TimeoutError:
            return
