"""A cluster-wide rate for the operator's writes, so that the API server's load does not grow with the cluster.

Releases of pods are not included: the operator must not hold pods back for its other writes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from types import MappingProxyType
from typing import Final

RATE = 30.0  # writes per second in the long run
BURST_SECONDS = 20.0  # seconds of saved-up writes: a cluster of some hundred objects never waits


class WritePriority(IntEnum):
    """The purpose of a write. Earlier members get unused tokens first."""

    START = 0  # pods wait for it: rights, volumes, children of jobs, plans of nodes that held pods want
    PLAN = 1  # the plans of the rest of the nodes
    STATUS = 2  # statuses for people and scripts
    TOLD = 3  # events, and the reasons why pods wait


# Shares of the rate while all priorities want to write: the last one is delayed, and never starved.
SHARES: Mapping[WritePriority, float] = MappingProxyType(
    {WritePriority.START: 0.35, WritePriority.PLAN: 0.25, WritePriority.STATUS: 0.2, WritePriority.TOLD: 0.2}
)
_HALF_LIFE = 60.0  # seconds until a namespace's spent writes count half
_LEAST_SPENT, _MANY = 0.1, 1000  # with this many namespaces, those that spent less are forgotten
_LONGEST = 0.5  # longest wait in seconds before the next check: other priorities may free tokens at any time
PATIENCE = 1.0  # seconds between two events during the release of many pods
_acting: ContextVar[WritePriority | None] = ContextVar("stoker_write_priority", default=WritePriority.START)


class WriteBudget:
    """A token bucket for each priority; what overflows one bucket goes to the rest.

    A running write takes two tokens: one when its action begins, returned at its end, and one when it is sent. So
    concurrent actions do not overdraw a nearly empty bucket. An action with many writes may overdraw it; then the next
    ones wait longer. ``clock`` counts seconds.
    """

    def __init__(self, rate: float, clock: Callable[[], float], burst_seconds: float = BURST_SECONDS) -> None:
        """Start full: ``rate`` tokens per second, and at most those of ``burst_seconds``."""
        self._rate: Final = rate
        self._clock: Final = clock
        self._most: Final = {one: share * rate * burst_seconds for one, share in SHARES.items()}
        self._level: Final = dict(self._most)
        self._spent: Final[dict[str, tuple[float, float]]] = {}  # by namespace: writes, and the time of the count
        self._at = clock()

    def wait(self, priority: WritePriority, scope: str = "") -> float:
        """Return the seconds until the next check is useful; 0.0: a write of this priority may begin.

        ``scope``: its namespace. A namespace leaves as many tokens as it has recently spent, up to half of the bucket,
        so that the first writes of another namespace begin at once.
        """
        self._refill()
        reserved = min(self.spent(scope), self._most[priority] / 2.0)
        lacking = reserved - self._level[priority]
        return 0.0 if lacking < 0.0 else min(_LONGEST, (lacking + 1.0) / (self._rate * SHARES[priority]))

    def begin(self, priority: WritePriority) -> None:
        """Record the start of an action that will write."""
        self._level[priority] -= 1.0

    def charge(self, scopes: Iterable[str]) -> None:
        """Record a write for each of these namespaces, which cause it."""
        now = self._clock()
        for scope in scopes:
            self._spent[scope] = (self.spent(scope) + 1.0, now)
        if len(self._spent) > _MANY:
            for scope in [scope for scope in self._spent if self.spent(scope) < _LEAST_SPENT]:
                del self._spent[scope]

    def spent(self, scope: str) -> float:
        """Return a namespace's recent writes; the count halves each minute."""
        count, at = self._spent.get(scope, (0.0, 0.0))
        return count * 0.5 ** ((self._clock() - at) / _HALF_LIFE) if count else 0.0

    def end(self, priority: WritePriority) -> None:
        """Record the end of an action; ``spend`` recorded its writes."""
        self._level[priority] += 1.0

    def spend(self) -> None:
        """Record a write that is sent, under this task's priority."""
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
    """Record the writes of this task under this priority; None: do not count them."""
    token = _acting.set(priority)
    try:
        yield
    finally:
        _acting.reset(token)


class EventPace:
    """The pace of events: equal events that wait for the budget are merged into one.

    During the release of many pods (``crowded()``) events are rare. Otherwise they would be as many requests as the
    releases, and would come before half of them.
    """

    def __init__(self, budget: WriteBudget, clock: Callable[[], float], crowded: Callable[[], bool]) -> None:
        self._budget: Final = budget
        self._clock: Final = clock
        self._crowded: Final = crowded
        self._last = -PATIENCE

    def wait(self) -> float:
        """Return the seconds until the next check; 0.0: an event may be written, and is counted."""
        if self._crowded() and self._clock() - self._last < PATIENCE:
            return _LONGEST
        seconds = self._budget.wait(WritePriority.TOLD)
        if not seconds:
            self._budget.begin(WritePriority.TOLD)
            self._last = self._clock()
        return seconds
