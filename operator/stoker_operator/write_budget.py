"""How much the operator may write: a rate for the whole cluster, so that its size never becomes the API server's load.

Releases of pods are not of it: whoever holds pods back must not hold them back for its own writes.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from types import MappingProxyType
from typing import Final

RATE = 30.0  # writes a second in the long run
BURST_SECONDS = 20.0  # that may be saved up: a cluster of some hundred objects never waits


class WritePriority(IntEnum):
    """What a write is good for; what comes first here is given first what others leave over."""

    START = 0  # pods wait for it: rights, volumes, children of jobs, plans of nodes that held pods want
    PLAN = 1  # what the other nodes should hold
    STATUS = 2  # what people and scripts read
    TOLD = 3  # events, and why a pod waits


# Of the rate, to each while all of them want to write: the last is delayed, and never starved.
SHARES: Mapping[WritePriority, float] = MappingProxyType(
    {WritePriority.START: 0.35, WritePriority.PLAN: 0.25, WritePriority.STATUS: 0.2, WritePriority.TOLD: 0.2}
)
_LONGEST = 0.5  # seconds until who waits looks again: what others leave over may come at any time
PATIENCE = 1.0  # seconds between two events while a crowd of pods is let go
_acting: ContextVar[WritePriority | None] = ContextVar("stoker_write_priority", default=WritePriority.START)


class WriteBudget:
    """A bucket of tokens for each priority; what one cannot hold goes to the others.

    A write under way holds a token twice, as something that began and as something that was sent, so that a bucket
    that is nearly empty is not overdrawn by all at once. One action that makes many writes may overdraw it; then
    the next ones wait for longer. ``clock`` counts seconds.
    """

    def __init__(self, rate: float, clock: Callable[[], float], burst_seconds: float = BURST_SECONDS) -> None:
        """Begin full: ``rate`` tokens a second, and at most as many as come in ``burst_seconds``."""
        self._rate: Final = rate
        self._clock: Final = clock
        self._most: Final = {one: share * rate * burst_seconds for one, share in SHARES.items()}
        self._level: Final = dict(self._most)
        self._at = clock()

    def wait(self, priority: WritePriority) -> float:
        """Return the seconds after which it is worth to ask again; 0.0: a write of this priority may begin."""
        self._refill()
        lacking = -self._level[priority]
        return 0.0 if lacking < 0.0 else min(_LONGEST, (lacking + 1.0) / (self._rate * SHARES[priority]))

    def begin(self, priority: WritePriority) -> None:
        """Note that something begins that will write."""
        self._level[priority] -= 1.0

    def end(self, priority: WritePriority) -> None:
        """Note that it ended; what it wrote was told by ``spend``."""
        self._level[priority] += 1.0

    def spend(self) -> None:
        """Note a write that is sent, for what this task acts for."""
        priority = _acting.get()
        if priority is not None:
            self._level[priority] -= 1.0

    def _refill(self) -> None:
        now = self._clock()
        come, self._at = max(0.0, now - self._at) * self._rate, now
        over = 0.0
        for one, share in SHARES.items():
            level = self._level[one] + come * share
            self._level[one] = min(level, self._most[one])
            over += level - self._level[one]
        for one in WritePriority:
            taken = min(over, self._most[one] - self._level[one])
            self._level[one] += taken
            over -= taken


@contextmanager
def acting_for(priority: WritePriority | None) -> Iterator[None]:
    """Have the writes of this task noted under this priority; None: they are not of the budget."""
    token = _acting.set(priority)
    try:
        yield
    finally:
        _acting.reset(token)


class EventPace:
    """The pace of events: those that wait for the budget are counted together where they are the same.

    While a crowd of pods is let go (``crowded()``) an event comes now and then only: written at once, those of the pods
    would be as many requests as their releases, and before half of these.
    """

    def __init__(self, budget: WriteBudget, clock: Callable[[], float], crowded: Callable[[], bool]) -> None:
        self._budget: Final = budget
        self._clock: Final = clock
        self._crowded: Final = crowded
        self._last = -PATIENCE

    def wait(self) -> float:
        """Return the seconds after which to ask again; 0.0: an event may be written, and is noted."""
        if self._crowded() and self._clock() - self._last < PATIENCE:
            return _LONGEST
        seconds = self._budget.wait(WritePriority.TOLD)
        if not seconds:
            self._budget.begin(WritePriority.TOLD)
            self._last = self._clock()
        return seconds
