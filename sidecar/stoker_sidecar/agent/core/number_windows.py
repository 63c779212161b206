"""The windows by which numbers are judged: what is read at first in each is left out. Pure: the clock is passed in.

What was fetched ahead under the old value is read first under the new one, so a turn shows some 3 s late.
"""

from dataclasses import dataclass

from stoker_sidecar.agent.core.read_counts import ReadCount


@dataclass(frozen=True)
class WindowTimes:
    """Seconds of a window: those that are left out, and those that count."""

    left_out: float = 5.0
    counted: float = 5.0

    @property
    def turns_a_minute(self) -> int:
        """How often a number may be turned, with some to spare."""
        return int(1.3 * 60.0 / (self.left_out + self.counted)) + 1


class NumberWindow:
    """One window, which begins when its value is in force. ``times``: of it. Seconds are of the monotonic clock."""

    def __init__(self, times: WindowTimes, began: float) -> None:
        self._times = times
        self._began = began
        self._first: ReadCount | None = None

    def saw(self, now: float, count: ReadCount) -> tuple[ReadCount, ReadCount] | None:
        """Take what was read until now; return the counts at both ends, once the window is over."""
        if self._first is None:
            if now >= self._began + self._times.left_out:
                self._first = count
            return None
        over = now >= self._began + self._times.left_out + self._times.counted
        return (self._first, count) if over else None
