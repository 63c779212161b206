"""Items per second, gaps and batches, from the times of the last accesses."""

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

_KEPT = 512  # times
_GAP = 4.0  # medians: a longer pause separates two batches
_SHORTEST = 0.005  # seconds: a shorter gap is no pause, for any median
_FEWEST_BATCHES = 3


@dataclass(frozen=True)
class Rates:
    """Items per second, seconds between batches, items per batch (both 0: reads come without batches), longest gap."""

    items_per_second: float
    batch_seconds: float
    batch_items: int
    longest_gap: float


@dataclass
class RateMeter:
    """The times of the last 512 items; ``share``: the observed share of the items."""

    share: float = 1.0
    _times: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def item(self, seconds: float) -> None:
        """Note a read of an item."""
        self._times.append(seconds)

    def at(self, now: float) -> Rates:
        """Return the present rates: a pause lowers them."""
        times = list(self._times)
        if len(times) < 2:
            return Rates(0.0, 0.0, 0, 0.0)
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        elapsed = max(now, times[-1]) - times[0]
        rate = (len(times) - 1) / elapsed / self.share if elapsed > 0 else 0.0
        return Rates(rate, *_batches(times, gaps), max(gaps))


def _batches(times: Sequence[float], gaps: Sequence[float]) -> tuple[float, int]:
    """Return the seconds between batches and the items per batch, by pauses; zeros without batches."""
    limit = max(_SHORTEST, _GAP * median(gaps))
    starts = [index + 1 for index, gap in enumerate(gaps) if gap > limit]
    if len(starts) <= _FEWEST_BATCHES:
        return 0.0, 0
    between = [times[later] - times[earlier] for earlier, later in itertools.pairwise(starts)]
    items = [later - earlier for earlier, later in itertools.pairwise(starts)]
    return median(between), round(median(items))
