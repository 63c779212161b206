"""A level-triggered reconcile loop: it merges wake-ups into one pass, retries failed passes and keeps deadlines."""

import asyncio
import logging
from typing import Final, Protocol

from stoker_api.backoff import Backoff
from stoker_kube.errors import KubeError
from stoker_operator import metrics
from stoker_operator.reconcilers.loops.keyed_work import KeyedWork

log = logging.getLogger(__name__)


class LevelTriggered(Protocol):
    """A reconciler: its passes decide without waiting and hand in work."""

    @property
    def work(self) -> KeyedWork:
        """The work, which requests a pass when an action had a result."""

    async def reconcile(self) -> float | None:
        """Run one pass; return the seconds until the next one is due without a change, or None."""


FIRST_RETRY = 0.5  # seconds: a conflict or a short API outage is over by then
LAST_RETRY = 30.0  # seconds: an operator without an API server stays quiet


class ReconcileLoop:
    """Runs a pass after each ``wake()``, at most one per ``interval`` seconds or per duration of a pass."""

    def __init__(self, name: str, reconciler: LevelTriggered, interval: float) -> None:
        self.name: Final = name
        self._reconciler: Final = reconciler
        self._interval: Final = interval
        self._awake: Final = asyncio.Event()
        self._awake.set()
        reconciler.work.listen(self.wake)

    def wake(self) -> None:
        """Request a pass soon. Cheap, never blocks."""
        self._awake.set()

    async def run(self) -> None:
        """Loop until cancelled, then cancel the work under way."""
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
            # Wait for as long as the pass took, so that half of the time is left for writes and the Lease, at any
            # scale.
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
