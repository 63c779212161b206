"""Limits bytes a second; the clock is passed in. Method: token bucket that may go into debt, so a big request waits after, not before."""

from dataclasses import dataclass


@dataclass
class TokenBucket:
    """``rate`` bytes a second; bursts of one second. ``updated``: seconds of the caller's clock."""

    rate: float
    updated: float
    tokens: float = 0.0

    def take(self, size: int, now: float) -> float:
        """Seconds to wait before ``size`` bytes may be asked for; they are taken at once."""
        self.tokens = min(self.rate, self.tokens + (now - self.updated) * self.rate)
        self.updated = now
        wait = max(0.0, -self.tokens / self.rate)
        self.tokens -= size
        return wait
