"""Divides the node's bandwidth to its sources among Datasets. The capacity is measured."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

# Seconds of a measurement. It is steady with chunks of 8 MiB, and short compared with a warming pass.
_WINDOW = 2.0
# A longer window had a pause without arrivals, and measures nothing.
_IDLE_WINDOW = 2 * _WINDOW
# Weight of a full window with a lower rate: a permanent drop is believed after some 20 windows.
_LOWERING = 0.1
# Seconds of its share that may be used at once, or be owed: so much later it has its share again.
_BURST = 1.0
# Seconds for which a sharer without open requests still counts. A reader pauses between two reads.
_LINGER = 0.5


class Sharer(NamedTuple):
    """Requests that share the node's bandwidth as one.

    ``owner``: the owner of the readers. ``share``: of the bandwidth, while other sharers want to fetch.
    """

    owner: str = ""
    share: float = 1.0


NOBODY = Sharer()


@dataclass
class Capacity:
    """The maximum rate of the sources, ``value`` in bytes a second; 0: unknown.

    All arrivals can raise it. Only a window with unmet demand and without held requests lowers it. Otherwise a held
    sharer would get less and less.
    """

    value: float = 0.0
    _began: float | None = None
    _bytes: int = 0
    _full: bool = False
    _held: bool = False

    def arrived(self, size: int, now: float) -> None:
        """Count received bytes."""
        self._began = now if self._began is None else self._began
        self._bytes += size
        if (elapsed := now - self._began) >= _WINDOW:
            if elapsed <= _IDLE_WINDOW:
                self._judge(self._bytes / elapsed)
            self.pause()
            self._began = now

    def pause(self) -> None:
        """Begin a new window when bytes are counted again."""
        self._began, self._bytes, self._full, self._held = None, 0, False, False

    def saw(self, *, full: bool = False, held: bool = False) -> None:
        """Note that demand exceeded the limit, or that a sharer was held back."""
        self._full, self._held = self._full or full, self._held or held

    def _judge(self, rate: float) -> None:
        if rate > self.value:
            self.value = rate if self._full or self.value else 0.0
        elif self._full and not self._held:
            self.value += _LOWERING * (rate - self.value)


@dataclass
class _Allowance:
    """Bytes that a sharer may still request, as of ``at``; less than 0: it must wait."""

    bytes: float
    at: float


class BandwidthShares:
    """Holds back a sharer that used its share while other sharers want to fetch. ``clock``: seconds, monotonic.

    A single sharer gets all bandwidth, and several divide all of it in proportion. A sharer always has one request in
    flight, whatever its share. When that request lands, waiting requests are checked again. The default share is 1.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.capacity = Capacity()
        self.limited = False  # a sharer that wants to fetch has a share below 1
        self._wanting: dict[Sharer, int] = {}  # requests that wait or are in flight
        self._flying: Counter[Sharer] = Counter()  # of limited sharers
        self._until: dict[Sharer, float] = {}  # until when each sharer counts as active
        self._shares = 0.0  # of all of them
        self._allowances: dict[Sharer, _Allowance] = {}

    def arrived(self, size: int) -> None:
        """Count received bytes of any sharer."""
        if self.limited:
            self.capacity.arrived(size, self._clock())

    def came(self, sharer: Sharer) -> None:
        """Note that a request begins to wait."""
        before = self._wanting.get(sharer, 0)
        self._wanting[sharer] = before + 1
        if not before:
            known, self._until[sharer] = sharer in self._until, inf
            if not known:
                self.count()

    def started(self, sharer: Sharer, size: int) -> None:
        """Note that a request of ``size`` bytes went from waiting to flying."""
        if sharer.share < 1:
            self._flying[sharer] += 1
            if (rate := self._rate(sharer)) is not None:
                allowed = self._allowed(sharer, rate)
                allowed.bytes = max(allowed.bytes, -rate * _BURST) - size

    def landed(self, sharer: Sharer) -> None:
        """Note that a request ended."""
        if sharer.share < 1:
            self._flying[sharer] -= 1
            if not self._flying[sharer]:
                del self._flying[sharer]
        self.went(sharer)

    def went(self, sharer: Sharer) -> None:
        """Note that a request left the queue without being sent."""
        left = self._wanting[sharer] - 1
        if left:
            self._wanting[sharer] = left
        else:
            del self._wanting[sharer]
            self._until[sharer] = self._clock() + _LINGER

    def count(self) -> None:
        """Forget inactive sharers, and add up the shares of the rest."""
        now = self._clock()
        for gone in [sharer for sharer, until in self._until.items() if until <= now]:
            del self._until[gone]
            self._allowances.pop(gone, None)
        self._shares = sum(sharer.share for sharer in self._until)
        self.limited = any(sharer.share < 1 for sharer in self._until)
        if not self.limited:
            self.capacity.pause()

    def holds(self, sharer: Sharer) -> bool:
        """Return True if a sharer must wait now."""
        if sharer.share >= 1 or not self._flying[sharer] or (rate := self._rate(sharer)) is None:
            return False
        held = self._allowed(sharer, rate).bytes < 0
        self.capacity.saw(held=held)
        return held

    def _rate(self, sharer: Sharer) -> float | None:
        """Return the bytes a second that a sharer has now; None: as much as it can get."""
        if len(self._until) < 2 or not self.capacity.value:
            self._allowances.pop(sharer, None)
            return None
        return self.capacity.value * sharer.share / min(1.0, self._shares)

    def _allowed(self, sharer: Sharer, rate: float) -> _Allowance:
        """Return the allowance of a sharer, refilled up to now."""
        now = self._clock()
        allowed = self._allowances.setdefault(sharer, _Allowance(0.0, now))
        allowed.bytes = min(rate * _BURST, allowed.bytes + (now - allowed.at) * rate)
        allowed.at = now
        return allowed


@dataclass
class TokenBucket:
    """A limit of bytes a second that may go into debt, so that a big request waits after, not before.

    ``rate``: bytes a second; bursts of one second. ``updated``: seconds of the caller's clock.
    """

    rate: float
    updated: float
    tokens: float = 0.0

    def take(self, size: int, now: float) -> float:
        """Take ``size`` tokens. Return the seconds to wait before the request."""
        self.tokens = min(self.rate, self.tokens + (now - self.updated) * self.rate)
        self.updated = now
        wait = max(0.0, -self.tokens / self.rate)
        self.tokens -= size
        return wait
