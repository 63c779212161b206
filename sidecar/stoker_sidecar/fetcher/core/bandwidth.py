"""Who leaves bandwidth to others: shares of what the node's way to its sources has been seen to bring."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

# Seconds for which bytes are counted: steady where chunks of 8 MiB come, short beside a pass of warming up.
_WINDOW = 2.0
# A window that took more than this has had nothing come for a while, and shows nothing.
_IDLE_WINDOW = 2 * _WINDOW
# How much of a full window that brought less counts: what is lower for good is believed after some 20 of them.
_LOWERING = 0.1
# Seconds of its share that may be used at once, or be owed: so much later it has its share again.
_BURST = 1.0
# Seconds for which who has all that it asked for still counts: a reader thinks between two reads.
_LINGER = 0.5


class Sharer(NamedTuple):
    """Requests that share the node's bandwidth as one.

    ``owner``: for whose readers they are; ``share``: of the bandwidth, while others want to fetch.
    """

    owner: str = ""
    share: float = 1.0


NOBODY = Sharer()


@dataclass
class Capacity:
    """What the way to the sources brings at the best, ``value`` in bytes a second; 0: not known yet.

    It is raised by whatever comes, and lowered only by windows in which more was wanted than could be asked for, and
    nobody was held back: else who is held back would be held to ever less.
    """

    value: float = 0.0
    _began: float | None = None
    _bytes: int = 0
    _full: bool = False
    _held: bool = False

    def arrived(self, size: int, now: float) -> None:
        """Count bytes that came."""
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
        """Note that more was wanted than could be asked for, or that somebody was held back."""
        self._full, self._held = self._full or full, self._held or held

    def _judge(self, rate: float) -> None:
        if rate > self.value:
            self.value = rate if self._full or self.value else 0.0
        elif self._full and not self._held:
            self.value += _LOWERING * (rate - self.value)


@dataclass
class _Allowance:
    """Bytes that a sharer may still ask for, as of ``at``; less than 0: it is to wait."""

    bytes: float
    at: float


class BandwidthShares:
    """Holds back who has had its share while others want to fetch; nobody else. ``clock``: seconds, monotonic.

    Who is alone has all, and those who are among themselves divide all in proportion. A sharer always has one request
    in flight, whatever its share: when it lands, the others are looked at again. What nobody limits has a share of 1.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.capacity = Capacity()
        self.limited = False  # whether somebody who wants to fetch has less than all
        self._wanting: dict[Sharer, int] = {}  # requests that wait or are in flight
        self._flying: Counter[Sharer] = Counter()  # of those who are limited
        self._until: dict[Sharer, float] = {}  # until when each counts as one who wants to fetch
        self._shares = 0.0  # of all of them
        self._allowances: dict[Sharer, _Allowance] = {}

    def arrived(self, size: int) -> None:
        """Count bytes that came, of whomever."""
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
        """Note that a request is not in flight any more, and gone."""
        if sharer.share < 1:
            self._flying[sharer] -= 1
            if not self._flying[sharer]:
                del self._flying[sharer]
        self.went(sharer)

    def went(self, sharer: Sharer) -> None:
        """Note that a request waits no more, and did not go."""
        left = self._wanting[sharer] - 1
        if left:
            self._wanting[sharer] = left
        else:
            del self._wanting[sharer]
            self._until[sharer] = self._clock() + _LINGER

    def count(self) -> None:
        """Forget who has not wanted anything for a while, and add up the others."""
        now = self._clock()
        for gone in [sharer for sharer, until in self._until.items() if until <= now]:
            del self._until[gone]
            self._allowances.pop(gone, None)
        self._shares = sum(sharer.share for sharer in self._until)
        self.limited = any(sharer.share < 1 for sharer in self._until)
        if not self.limited:
            self.capacity.pause()

    def holds(self, sharer: Sharer) -> bool:
        """Tell whether a sharer is to wait now."""
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
        """Return what a sharer has now, with what came to it since."""
        now = self._clock()
        allowed = self._allowances.setdefault(sharer, _Allowance(0.0, now))
        allowed.bytes = min(rate * _BURST, allowed.bytes + (now - allowed.at) * rate)
        allowed.at = now
        return allowed
