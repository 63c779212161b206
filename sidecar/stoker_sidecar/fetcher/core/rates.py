"""Bytes a second, measured and limited; the clock is passed in."""

import math
from dataclasses import dataclass

WINDOW = 10.0  # seconds: steady enough to read, quick enough to show a stall


@dataclass
class Speed:
    """A mean of bytes a second over about ten seconds.

    ``updated``: seconds of the caller's clock at the last ``tick``.
    """

    updated: float
    value: float = 0.0
    pending: int = 0
    started: bool = False
    moved: float = 0.0  # when bytes last arrived

    def add(self, size: int) -> None:
        """Count bytes that arrived."""
        self.pending += size

    def tick(self, now: float) -> float:
        """Fold in what arrived since the last tick; return the mean in bytes a second."""
        elapsed = now - self.updated
        if elapsed <= 0:
            return self.value
        self.moved = now if self.pending else self.moved
        if now - self.moved > WINDOW:  # at rest: a tail that never quite ends would be a new status every few seconds
            self.value, self.started = 0.0, False
        weight = 1.0 - math.exp(-elapsed / WINDOW) if self.started else 1.0
        self.value += weight * (self.pending / elapsed - self.value)
        self.started = self.started or self.pending > 0
        self.updated, self.pending = now, 0
        return self.value


class ArrivalSpeeds:
    """How fast bytes come from the source, and from other nodes. ``now``: seconds of the caller's clock."""

    def __init__(self, now: float) -> None:
        self.source, self.peers = Speed(now), Speed(now)

    def tick(self, now: float) -> float:
        """Fold in what arrived since the last tick; return the mean of both together, in bytes a second."""
        return self.source.tick(now) + self.peers.tick(now)

    @property
    def of_source_alone(self) -> float | None:
        """The mean from the source; None while others give as well: then it is not asked for all that it gives."""
        return None if self.peers.value else self.source.value


def eta_seconds(left: int, speed: float) -> int | None:
    """Return the seconds until ``left`` bytes are here; None when nothing moves. Half a byte a second is nothing."""
    return math.ceil(left / speed) if speed >= 0.5 else None


@dataclass
class TokenBucket:
    """A limit of bytes a second that may go into debt, so that a big request waits after, not before.

    ``rate``: bytes a second; bursts of one second. ``updated``: seconds of the caller's clock.
    """

    rate: float
    updated: float
    tokens: float = 0.0

    def take(self, size: int, now: float) -> float:
        """Take ``size`` bytes; return the seconds to wait before they may be asked for."""
        self.tokens = min(self.rate, self.tokens + (now - self.updated) * self.rate)
        self.updated = now
        wait = max(0.0, -self.tokens / self.rate)
        self.tokens -= size
        return wait
