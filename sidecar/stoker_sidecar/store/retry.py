"""Tries again what the store says is worth it."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from stoker_api.backoff import BackoffPolicy
from stoker_sidecar.errors import SidecarError

T = TypeVar("T")

# The source may hiccup for a moment, and a reader waits meanwhile.
_REQUEST = BackoffPolicy(base=0.2, cap=5.0)
_ATTEMPTS = 4


@dataclass(frozen=True)
class Retry:
    """Tries an action again while its error is temporary, with growing waits.

    ``sleep`` waits that many seconds (asyncio's, or a test's).
    """

    sleep: Callable[[float], Awaitable[object]]
    uniform: Callable[[], float] = random.random
    backoff: BackoffPolicy = _REQUEST
    attempts: int = _ATTEMPTS

    async def __call__(self, action: Callable[[], Awaitable[T]]) -> T:
        """Return the result of ``action``; raise its last error when all attempts failed or a retry cannot help."""
        for attempt in range(self.attempts - 1):
            try:
                return await action()
            except SidecarError as error:
                if not error.temporary:
                    raise
                wait = self.backoff.delay(attempt, self.uniform(), error.retry_after)
            await self.sleep(wait)
        return await action()
