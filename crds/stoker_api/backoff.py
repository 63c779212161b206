"""Exponential backoff with jitter, so that a thousand nodes do not retry at the same moment.

Source of the method: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

# 2**30 seconds exceed any cap. The limit keeps the power finite.
_MOST_DOUBLINGS = 30


@dataclass(frozen=True)
class BackoffPolicy:
    """Waits in seconds. The wait before try n is uniform between 0 and min(cap, base * 2**n): "full jitter"."""

    base: float
    cap: float

    def delay(self, attempt: int, uniform: float, asked: float = 0.0) -> float:
        """Return the wait after ``attempt`` + 1 failures. ``uniform`` is a random number in [0, 1).

        ``asked`` is the server's Retry-After in seconds. It is added first, up to the cap, so that a reader's wait
        stays bounded. The jitter on top separates nodes that got the same Retry-After.
        """
        ceiling = min(self.cap, self.base * 2.0 ** min(attempt, _MOST_DOUBLINGS))
        return min(asked, self.cap) + uniform * ceiling


class Backoff:
    """The waits of one operation that fails repeatedly, until ``reset``: a watch, a request, a child process.

    Each wait is at least a tenth of the full one, so that no retry is immediate.
    """

    def __init__(self, first: float = 0.5, cap: float = 30.0, rand: Callable[[], float] = random.random) -> None:
        self._policy = BackoffPolicy(first, cap)
        self._rand = rand
        self._failures = 0

    def next(self, at_least: float = 0.0) -> float:
        """Return the seconds to wait now. ``at_least`` is the wait that the server asked for."""
        wait = self._policy.delay(self._failures, 0.1 + 0.9 * self._rand())
        self._failures += 1
        return max(at_least, wait)

    def reset(self) -> None:
        """Start again at the first wait, after a success."""
        self._failures = 0
