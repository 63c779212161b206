"""Whether a process's memory is flat while a cluster changes all the time. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression, median

_HOUR = 3600.0
_SETTLING = 0.25  # of the time, in which caches fill: it says nothing of what comes after
_FLAT = 0.05  # of what it has, an hour: what noise makes of a run of some minutes
_SHORT = 600.0  # seconds: of a shorter run the noise is more than that


@dataclass(frozen=True)
class MemoryTrend:
    """How memory changes, by the line through its samples with the least squares. ``flat`` None: the run was short."""

    bytes_an_hour: float
    median: float
    flat: bool | None

    @property
    def says(self) -> str:
        """The verdict in words."""
        if self.flat is None:
            return f"too short a run to say whether it is flat: that takes {_SHORT / 60:.0f} minutes"
        return "flat" if self.flat else f"not flat: more than {_FLAT:.0%} of it an hour"


def memory_trend(samples: Sequence[tuple[float, float]]) -> MemoryTrend:
    """Return the trend of samples (seconds, bytes), in order; the first quarter of the time is left out.

    Raises ValueError where less than two are left.
    """
    first, last = samples[0][0], samples[-1][0]
    later = [one for one in samples if one[0] >= first + _SETTLING * (last - first)]
    if len(later) < 2 or first == last:
        raise ValueError("a trend takes two samples at least, at different moments")
    slope, _ = linear_regression([at for at, _ in later], [size for _, size in later])
    middle = median(size for _, size in later)
    flat = None if last - first < _SHORT else slope * _HOUR <= _FLAT * middle
    return MemoryTrend(slope * _HOUR, middle, flat)
