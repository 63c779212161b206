"""How long to wait before the next try: full jitter, so that a thousand nodes do not come back at once.

Source of the method: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Seconds. The wait before try n is uniform between 0 and min(cap, base * 2**n)."""

    base: float
    cap: float

    def delay(self, attempt: int, uniform: float) -> float:
        """``attempt``: failures so far, less one; ``uniform``: a random number in [0, 1)."""
        # 2**30 seconds are beyond any cap; the limit keeps the power from growing without end.
        return uniform * min(self.cap, self.base * 2.0 ** min(attempt, 30))


# One request: the source may hiccup for a moment, a reader waits meanwhile.
REQUEST = Backoff(base=0.2, cap=5.0)
REQUEST_ATTEMPTS = 4
# A dataset whose source fails: goes on by itself when the source heals, at most a minute later.
DATASET = Backoff(base=1.0, cap=60.0)
