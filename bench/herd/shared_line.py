"""The bucket's line in a model of a herd: all transfers that are under way have equal shares of it. Pure."""

from heapq import heappop, heappush

# Who it is for, and which piece.
Transfer = tuple[int, int]


class SharedLine:
    """Transfers over one line of ``rate`` bytes a second. Times are seconds of a clock that never goes back."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._at = 0.0
        self._given = 0.0  # bytes that a transfer would have by now that has been here from the beginning
        self._ends: list[tuple[float, Transfer]] = []

    def begin(self, transfer: Transfer, size: int, now: float) -> None:
        """Let a transfer of ``size`` bytes begin."""
        self._advance(now)
        heappush(self._ends, (self._given + size, transfer))

    def next_end(self) -> float:
        """Return when the next transfer ends, if none begins before; infinite for none."""
        if not self._ends:
            return float("inf")
        return self._at + max(0.0, self._ends[0][0] - self._given) * len(self._ends) / self._rate

    def end(self) -> Transfer:
        """Let the next transfer end, at ``next_end``; return it. Raises IndexError where there is none."""
        self._advance(self.next_end())
        return heappop(self._ends)[1]

    def _advance(self, now: float) -> None:
        if self._ends:
            self._given += (now - self._at) * self._rate / len(self._ends)
        self._at = now
