"""Where readers are between the moments at which some of their reads are seen: reckoned by their pace. Pure."""

from math import exp

# Seconds after which what was seen of the pace counts for a third.
_FADING = 5.0
# The place is reckoned on for so long at least, for so many times the longest span lately between two that were seen,
# and for so long at most: readers that are seen no more may have stopped.
_LEAST_TRUST, _TRUST_SPANS, _MOST_TRUST = 1.0, 3.0, 20.0


class ReadingPlace:
    """A place that was seen now and then, in steps over all epochs; each call is given the time, in seconds.

    ``loose``: steps by which reads may come out of order: so far behind, nothing has moved back. ``begin``: where
    readers are said to begin.
    """

    def __init__(self, loose: float, begin: float = 0.0) -> None:
        self._loose = loose
        self._at = begin
        self._seen: float | None = None
        self._steps = self._seconds = 0.0
        self._span = 0.0

    @property
    def seen(self) -> float:
        """The last place that was seen, or where readers begin."""
        return self._at

    @property
    def pace(self) -> float:
        """Steps a second, lately; 0: not known yet."""
        return self._steps / self._seconds if self._seconds else 0.0

    def saw(self, now: float, place: float) -> bool:
        """Take note of a place; returns whether it is far from where readers were reckoned to be."""
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
        """Return where the readers are, as far as can be told: never before where they were seen."""
        if self._seen is None:
            return self._at
        trust = min(_MOST_TRUST, max(_LEAST_TRUST, _TRUST_SPANS * self._span))
        return self._at + self.pace * min(max(0.0, now - self._seen), trust)
