"""How fast each Dataset came from its store, as far as that tells what the store can do. Pure."""

from collections.abc import Collection
from dataclasses import dataclass

from stoker_tuning.reports.figures import round_to

# Seconds of warming up that must have been seen, before the best rate in them says what the store and the way to it
# give: it begins slowly. More than so many between two looks count as so many.
_SEEN_SECONDS, _MOST_BETWEEN = 30.0, 5.0


@dataclass
class _Seen:
    best: float = 0.0
    seconds: float = 0.0
    last: float | None = None


class StoreRates:
    """The best rate of each Dataset's warm-up, by its UID, in bytes a second.

    Only a warm-up that nothing limits asks for all that the store gives: what readers ask for says nothing of it, nor
    what comes under a cap, or while other nodes give as well.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def saw(self, uid: str, rate: float | None, now: float) -> None:
        """Take the rate of a Dataset ``now``, in seconds; None: it is not being warmed up as fast as its store can."""
        seen = self._seen.setdefault(uid, _Seen())
        if rate:
            since = 0.0 if seen.last is None else now - seen.last
            seen.seconds += min(max(since, 0.0), _MOST_BETWEEN)
            seen.best = max(seen.best, rate)
        seen.last = now

    def knew(self, uid: str, best: float) -> None:
        """Take what was known of a Dataset before a restart."""
        seen = self._seen.setdefault(uid, _Seen())
        seen.best, seen.seconds = max(seen.best, best), _SEEN_SECONDS

    def best(self, uid: str) -> float | None:
        """Return the best rate, to one digit, as it is no more certain than that; None: too little was seen."""
        seen = self._seen.get(uid)
        return round_to(seen.best, 1) if seen is not None and seen.seconds >= _SEEN_SECONDS else None

    def known(self) -> dict[str, float]:
        """Return the best rates that are known."""
        return {uid: best for uid in self._seen if (best := self.best(uid)) is not None}

    def retain(self, uids: Collection[str]) -> None:
        """Forget all other Datasets."""
        self._seen = {uid: seen for uid, seen in self._seen.items() if uid in uids}
