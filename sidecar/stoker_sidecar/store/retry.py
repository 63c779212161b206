"""Tries again what the store says is worth it."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.store.core.backoff import REQUEST, REQUEST_ATTEMPTS, Backoff

T = TypeVar("T")


@dataclass(frozen=True)
class Retry:
    """``sleep``: waits that many seconds (asyncio's, or a test's)."""

    sleep: Callable[[float], Awaitable[object]]
    uniform: Callable[[], float] = random.random
    backoff: Backoff = REQUEST
    attempts: int = REQUEST_ATTEMPTS

    async def __call__(self, action: Callable[[], Awaitable[T]]) -> T:
        """The result of ``action``; its last error when all attempts failed or a retry cannot help."""
        for attempt in range(self.attempts - 1):
            try:
                return await action()
            except SidecarError as error:
                if not error.temporary:
                    raise
                wait = self.backoff.delay(attempt, self.uniform(), error.retry_after)
            await self.sleep(wait)
        return await action()
