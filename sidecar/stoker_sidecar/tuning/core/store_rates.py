"""Download rates of Datasets that show the capacity of their stores. Pure."""

from collections.abc import Collection
from dataclasses import dataclass

from stoker_tuning.reports.figures import round_to

# Seconds of warm-up after which the best rate shows roughly the capacity of the store and the network; a warm-up begins
# slowly. Small Datasets are warm after some seconds, and a rough figure is better than none.
# The second number limits the seconds that count between two calls.
_SEEN_SECONDS, _MOST_BETWEEN = 5.0, 2.0


@dataclass
class _Seen:
    best: float = 0.0
    seconds: float = 0.0
    last: float | None = None


class StoreRates:
    """The best rate of each Dataset's warm-up, by its UID, in bytes per second.

    Only an unlimited warm-up uses the full capacity of the store. Reads, capped warm-ups and warm-ups with peers do not
    show it.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def saw(self, uid: str, rate: float | None, now: float) -> None:
        """Take a Dataset's rate at ``now``, in seconds. None: no unlimited warm-up is running."""
        seen = self._seen.setdefault(uid, _Seen())
        if rate:
            since = 0.0 if seen.last is None else now - seen.last
            seen.seconds += min(max(since, 0.0), _MOST_BETWEEN)
            seen.best = max(seen.best, rate)
        seen.last = now

    def knew(self, uid: str, best: float) -> None:
        """Take a Dataset's best rate from before a restart."""
        seen = self._seen.setdefault(uid, _Seen())
        seen.best, seen.seconds = max(seen.best, best), _SEEN_SECONDS

    def best(self, uid: str) -> float | None:
        """Return the best rate, rounded to one digit because of its uncertainty; None if the warm-up was too short."""
        seen = self._seen.get(uid)
        return round_to(seen.best, 1) if seen is not None and seen.seconds >= _SEEN_SECONDS else None

    def known(self) -> dict[str, float]:
        """Return the known best rates."""
        return {uid: best for uid in self._seen if (best := self.best(uid)) is not None}

    def retain(self, uids: Collection[str]) -> None:
        """Forget all other Datasets."""
        self._seen = {uid: seen for uid, seen in self._seen.items() if uid in uids}
