"""Runs one dataset's work repeatedly.

When poked, when its time has come, and with growing waits while it fails.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from stoker_api.backoff import BackoffPolicy
from stoker_sidecar.errors import InternalError, SidecarError

_log = logging.getLogger(__name__)


@dataclass
class DatasetLoop:
    """Repeats ``step``, which returns the seconds until it wants to run again, None for when poked.

    ``name`` is for the log.

    ``poked`` is set while something has changed since the step began: a long step should end early.
    """

    name: str
    step: Callable[[], Awaitable[float | None]]
    backoff: BackoffPolicy
    uniform: Callable[[], float] = random.random
    error: SidecarError | None = None
    failures: int = 0
    poked: asyncio.Event = field(default_factory=asyncio.Event)

    def poke(self) -> None:
        """Run the step soon."""
        self.failures = 0
        self.poked.set()

    def forget_error(self, kinds: tuple[type[SidecarError], ...]) -> None:
        """Forget the last error if it is of these kinds."""
        if isinstance(self.error, kinds):
            self.error = None

    async def run(self) -> None:
        """Repeat until cancelled."""
        while True:
            self.poked.clear()
            delay = await self._once()
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self.poked.wait()

    async def _once(self) -> float | None:
        try:
            delay = await self.step()
        except SidecarError as error:
            return self._failed(error)
        except Exception as error:  # noqa: BLE001 -- the boundary of a dataset: a bug in one must not stop the others
            _log.exception("%s: unexpected error", self.name)
            return self._failed(InternalError(f"unexpected error: {error!r}"))
        self.error, self.failures = None, 0
        return delay

    def _failed(self, error: SidecarError) -> float:
        if self.error is None or self.error.message != error.message:
            _log.warning("%s: %s: %s", self.name, error.reason, error.message)
        self.error = error
        delay = self.backoff.delay(self.failures, self.uniform(), error.retry_after)
        self.failures += 1
        return delay


def soonest(*delays: float | None) -> float | None:
    """Return the shortest of these times; None if all are None."""
    return min((delay for delay in delays if delay is not None), default=None)
