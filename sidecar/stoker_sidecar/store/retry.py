"""Tries again what the store says is worth it, and says how long to wait before.

Full jitter, so that a thousand nodes do not come back at once: M. Brooker, "Exponential Backoff And Jitter", AWS
Architecture Blog, 2015. stoker_kube has a class of its own, which counts failures and never waits for nothing.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from stoker_sidecar.errors import SidecarError

T = TypeVar("T")


@dataclass(frozen=True)
class FullJitter:
    """Exponential waits with full jitter, in seconds. The wait before try n is uniform between 0 and min(cap, base * 2**n)."""

    base: float
    cap: float

    def delay(self, attempt: int, uniform: float, asked: float = 0.0) -> float:
        """Return the seconds to wait. ``attempt``: failures so far, less one; ``uniform``: a random number in [0, 1).

        ``asked``: seconds that the server wants to be left alone (Retry-After). They are waited first, up to the cap: a
        reader's wait stays bounded, and the jitter on top keeps apart the nodes that were all told the same.
        """
        # 2**30 seconds are beyond any cap; the limit keeps the power from growing without end.
        return min(asked, self.cap) + uniform * min(self.cap, self.base * 2.0 ** min(attempt, 30))


# One request: the source may hiccup for a moment, a reader waits meanwhile.
REQUEST = FullJitter(base=0.2, cap=5.0)
REQUEST_ATTEMPTS = 4
# A dataset whose source fails: goes on by itself when the source heals, at most a minute later.
DATASET = FullJitter(base=1.0, cap=60.0)


@dataclass(frozen=True)
class Retry:
    """Tries an action again while its errors are temporary. ``sleep``: waits that many seconds (asyncio's, or a test's)."""

    sleep: Callable[[float], Awaitable[object]]
    uniform: Callable[[], float] = random.random
    backoff: FullJitter = REQUEST
    attempts: int = REQUEST_ATTEMPTS

    async def __call__(self, action: Callable[[], Awaitable[T]]) -> T:
        """Return the result of ``action``. Raises its last error when all attempts failed or a retry cannot help."""
        for attempt in range(self.attempts - 1):
            try:
                return await action()
            except SidecarError as error:
                if not error.temporary:
                    raise
                wait = self.backoff.delay(attempt, self.uniform(), error.retry_after)
            await self.sleep(wait)
        return await action()
