"""Times at which time alone requires an action, by key. Due keys are found without a scan of all keys."""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final


class DueTimes:
    """Times of keys, in seconds of one clock."""

    def __init__(self) -> None:
        self._times: Final[dict[str, frozenset[float]]] = {}
        self._heap: Final[list[tuple[float, str]]] = []  # also contains removed times until they reach the top

    def put(self, key: str, times: Iterable[float]) -> None:
        """Replace all times of a key. Without times, remove the key."""
        new, old = frozenset(times), self._times.pop(key, frozenset())
        if new:
            self._times[key] = new
        for time in new - old:
            heappush(self._heap, (time, key))
        if len(self._heap) > 4 * len(self._times) + 64:  # mostly removed times: each key has one or two
            self._heap[:] = sorted((time, one) for one, its in self._times.items() for time in its)

    def take(self, now: float) -> set[str]:
        """Return the keys with passed times, and remove those times."""
        found = set[str]()
        while self._heap and self._heap[0][0] <= now:
            time, key = heappop(self._heap)
            if self._forget(key, time):
                found.add(key)
        return found

    def first(self) -> float | None:
        """Return the earliest time, or None if there are no times."""
        while self._heap and self._heap[0][0] not in self._times.get(self._heap[0][1], ()):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _forget(self, key: str, time: float) -> bool:
        known = self._times.get(key, frozenset())
        if time not in known:
            return False
        self._times[key] = known - {time}
        if not self._times[key]:
            del self._times[key]
        return True
