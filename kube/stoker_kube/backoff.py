"""How long to wait before asking an API server again.

Exponential, with jitter so that a fleet does not come back at once.
"""

import random
from collections.abc import Callable


class Backoff:
    """Waits with full jitter over ``first * 2**n`` seconds, at most ``cap``.

    After the AWS architecture blog, "Exponential Backoff And Jitter".
    """

    def __init__(self, first: float = 0.5, cap: float = 30.0, rand: Callable[[], float] = random.random) -> None:
        self._first = first
        self._cap = cap
        self._rand = rand
        self._failures = 0

    def next(self, at_least: float = 0.0) -> float:
        """Return seconds to wait now; ``at_least`` is what the server asked for."""
        ceiling = min(self._cap, self._first * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return max(at_least, ceiling * (0.1 + 0.9 * self._rand()))

    def reset(self) -> None:
        """Begin anew: it works again."""
        self._failures = 0
