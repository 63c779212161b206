"""A level-triggered reconcile loop: many wake-ups become one pass, a failed pass is tried again, deadlines are kept."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from stoker_api.backoff import Backoff
from stoker_kube.errors import KubeError
from stoker_operator import metrics

log = logging.getLogger(__name__)

# A pass gives the seconds after which it wants to run again even if nothing changes, or None.
Reconcile = Callable[[], Awaitable[float | None]]

FIRST_RETRY = 0.5  # seconds: a conflict or a short API outage is over by then
LAST_RETRY = 30.0  # seconds: keeps an operator without API server quiet


class ReconcileLoop:
    """A loop that runs ``reconcile`` after ``wake()``, at most once every ``interval`` seconds."""

    def __init__(self, name: str, reconcile: Reconcile, interval: float) -> None:
        self._name: Final = name
        self._reconcile: Final = reconcile
        self._interval: Final = interval
        self._awake: Final = asyncio.Event()
        self._awake.set()

    def wake(self) -> None:
        """Ask for a pass soon. Cheap, never blocks."""
        self._awake.set()

    async def run(self) -> None:
        """Loop until cancelled."""
        backoff = Backoff(FIRST_RETRY, LAST_RETRY)
        while True:
            self._awake.clear()
            try:
                again = await self._timed_pass()
                backoff.reset()
            except Exception as error:
                retry = backoff.next()
                unexpected = None if isinstance(error, KubeError) else error
                log.warning("%s pass failed, trying again in %.1f s: %s", self._name, retry, error, exc_info=unexpected)
                metrics.RECONCILE_ERRORS.labels(self._name).inc()
                self._awake.set()
                await asyncio.sleep(retry)
                continue
            await asyncio.sleep(self._interval)
            await self._wait(again)

    async def _timed_pass(self) -> float | None:
        with metrics.RECONCILE_SECONDS.labels(self._name).time():
            return await self._reconcile()

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._awake.wait()
        except TimeoutError:
            return
