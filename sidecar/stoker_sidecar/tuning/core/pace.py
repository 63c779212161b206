"""How often knobs may change: at a reload or when a workload does something else, and so many times a minute."""

from collections import deque

_MOST = 4
_SECONDS = 60.0
# Of the windows of trials, which are 10 s: their own allowance, so that they keep no document waiting.
MOST_TURNS = 8


class Pace:
    """Counts the changes of one Dataset. Times are seconds of any clock."""

    def __init__(self, most: int = _MOST, seconds: float = _SECONDS) -> None:
        self._most = most
        self._seconds = seconds
        self._changes: deque[float] = deque(maxlen=most)

    def wait(self, now: float) -> float:
        """Return the seconds until there may be another change; 0: now."""
        if len(self._changes) < self._most:
            return 0.0
        return max(0.0, self._changes[0] + self._seconds - now)

    def changed(self, now: float) -> None:
        """Count a change."""
        self._changes.append(now)
