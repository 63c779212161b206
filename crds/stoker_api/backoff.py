"""How long to wait before the next try: growing, with jitter, so that a thousand nodes do not come back at once.

Source of the method: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

# 2**30 seconds are beyond any cap; the limit keeps the power from growing without end.
_MOST_DOUBLINGS = 30


@dataclass(frozen=True)
class BackoffPolicy:
    """Waits in seconds: the one before try n is uniform between 0 and min(cap, base * 2**n), "full jitter"."""

    base: float
    cap: float

    def delay(self, attempt: int, uniform: float, asked: float = 0.0) -> float:
        """Return the wait after ``attempt`` + 1 failures; ``uniform`` is a random number in [0, 1).

        ``asked``: seconds that the server wants to be left alone (Retry-After). They are waited first, up to the cap: a
        reader's wait stays bounded, and the jitter on top keeps apart the nodes that were all told the same.
        """
        ceiling = min(self.cap, self.base * 2.0 ** min(attempt, _MOST_DOUBLINGS))
        return min(asked, self.cap) + uniform * ceiling


class Backoff:
    """The waits of one thing that fails again and again, until ``reset``: a watch, a request, a child process.

    At least a tenth of each full wait is kept, so that nothing is tried again without any pause.
    """

    def __init__(self, first: float = 0.5, cap: float = 30.0, rand: Callable[[], float] = random.random) -> None:
        self._policy = BackoffPolicy(first, cap)
        self._rand = rand
        self._failures = 0

    def next(self, at_least: float = 0.0) -> float:
        """Return seconds to wait now; ``at_least`` is what the server asked for."""
        wait = self._policy.delay(self._failures, 0.1 + 0.9 * self._rand())
        self._failures += 1
        return max(at_least, wait)

    def reset(self) -> None:
        """Begin anew: it works again."""
        self._failures = 0
