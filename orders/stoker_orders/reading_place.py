"""Estimates the readers' position between observed reads from their pace. Pure."""

from math import exp

# Seconds after which an observation of the pace has a third of its weight.
_FADING = 5.0
# Extrapolate for at least the first value in seconds, for a multiple of the longest recent gap, and for at most the
# last value. Unobserved readers may have stopped.
_LEAST_TRUST, _TRUST_SPANS, _MOST_TRUST = 1.0, 3.0, 20.0


class ReadingPlace:
    """An observed position, in steps over all epochs. Each call gets the time in seconds.

    ``loose`` is the possible disorder of reads in steps: a position that little behind is no step back. ``begin`` is
    the start position.
    """

    def __init__(self, loose: float, begin: float = 0.0) -> None:
        self._loose = loose
        self._at = begin
        self._seen: float | None = None
        self._steps = self._seconds = 0.0
        self._span = 0.0

    @property
    def seen(self) -> float:
        """The last observed position, or the start."""
        return self._at

    @property
    def pace(self) -> float:
        """Recent steps per second; 0: unknown."""
        return self._steps / self._seconds if self._seconds else 0.0

    def saw(self, now: float, place: float) -> bool:
        """Record a position. Return True if it is far from the estimate."""
        far = self.at(now) - place > self._loose
        if self._seen is None:
            self._at, self._seen = place if far else max(self._at, place), now
            return far
        if place < self._at - self._loose:
            self._at, self._seen, self._steps, self._seconds, self._span = place, now, 0.0, 0.0, 0.0
            return True
        span, gone = now - self._seen, max(0.0, place - self._at)
        if span > 0.0:
            left = exp(-span / _FADING)
            self._steps, self._seconds = self._steps * left + gone, self._seconds * left + span
            self._span = max(span, self._span * left)
            self._seen = now
        self._at = max(self._at, place)
        return far

    def at(self, now: float) -> float:
        """Return the estimated position. It is never before the last observed one."""
        if self._seen is None:
            return self._at
        trust = min(_MOST_TRUST, max(_LEAST_TRUST, _TRUST_SPANS * self._span))
        return self._at + self.pace * min(max(0.0, now - self._seen), trust)
