"""How many lines a pod, or all pods of the node together, may have read. Pure."""


class Allowance:
    """So many a second, and what was not used of it up to ``most``. ``now`` is always seconds of one clock."""

    def __init__(self, per_second: float, most: float) -> None:
        self._per_second, self._most = per_second, most
        self._left, self._at = most, 0.0

    def take(self, now: float) -> bool:
        """Take one, if there is one."""
        self._left = min(self._most, self._left + max(0.0, now - self._at) * self._per_second)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
