"""Rate limit of knob changes: a number per minute."""

from collections import deque

_MOST = 4
_SECONDS = 60.0
# Separate limit for windows of trials, which take 10 s, so that trials do not delay changes of documents.
MOST_TURNS = 8


class Pace:
    """Counts the changes of one Dataset. Times are seconds of any clock."""

    def __init__(self, most: int = _MOST, seconds: float = _SECONDS) -> None:
        self._most = most
        self._seconds = seconds
        self._changes: deque[float] = deque(maxlen=most)

    def wait(self, now: float) -> float:
        """Return the seconds until the next change is allowed; 0: now."""
        if len(self._changes) < self._most:
            return 0.0
        return max(0.0, self._changes[0] + self._seconds - now)

    def changed(self, now: float) -> None:
        """Count a change."""
        self._changes.append(now)
