"""How many accesses of a pod are looked at in detail: so many a second, whoever reads how fast. Pure."""

# Accesses a second of all pods together: 9 us each, so 1 % of a core.
ACCESSES_A_SECOND = 1000.0
# Seconds whose accesses may come at once.
_BURST = 10.0


class FollowBudget:
    """A reader's share of what the agent may look at; ``share``: of all readers, 0 to 1."""

    def __init__(self, now: float, share: float = 1.0) -> None:
        self._last = now
        self._left = _BURST * ACCESSES_A_SECOND * share
        self.share = share

    def grant(self, now: float, wanted: int) -> int:
        """Return how many of so many accesses may be looked at."""
        rate = ACCESSES_A_SECOND * self.share
        self._left = min(_BURST * rate, self._left + max(0.0, now - self._last) * rate)
        self._last = now
        granted = min(wanted, int(self._left))
        self._left -= granted
        return granted
