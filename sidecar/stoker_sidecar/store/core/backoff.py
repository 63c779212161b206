"""How long to wait before the next try: full jitter, so that a thousand nodes do not come back at once.

Source of the method: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Seconds. The wait before try n is uniform between 0 and min(cap, base * 2**n)."""

    base: float
    cap: float

    def delay(self, attempt: int, uniform: float, asked: float = 0.0) -> float:
        """``attempt``: failures so far, less one; ``uniform``: a random number in [0, 1).

        ``asked``: seconds that the server wants to be left alone (Retry-After). They are waited first, up to the cap: a
        reader's wait stays bounded, and the jitter on top keeps apart the nodes that were all told the same.
        """
        # 2**30 seconds are beyond any cap; the limit keeps the power from growing without end.
        return min(asked, self.cap) + uniform * min(self.cap, self.base * 2.0 ** min(attempt, 30))


# One request: the source may hiccup for a moment, a reader waits meanwhile.
REQUEST = Backoff(base=0.2, cap=5.0)
REQUEST_ATTEMPTS = 4
# A dataset whose source fails: goes on by itself when the source heals, at most a minute later.
DATASET = Backoff(base=1.0, cap=60.0)
