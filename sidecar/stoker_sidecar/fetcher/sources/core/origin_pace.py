"""How fast this node may ask one origin: within its share, and slower for a while when the origin asks for that.

Methods: token buckets for bytes and requests; additive increase and multiplicative decrease (Chiu and Jain 1989) of
both, as TCP answers congestion.
"""

from dataclasses import dataclass, field
from math import exp, inf

from stoker_sidecar.fetcher.ondisk.telemetry import WINDOW

# Seconds of a rate that may be saved up while nothing is asked for: short, as all nodes begin at once after a pause.
_BURST = 0.25
# A SlowDown halves the rate, once for all requests that were in flight together; seconds.
_DECREASE, _TOGETHER = 0.5, 1.0
# Recovery a second, as a share of the rate at which the origin slowed this node: a halving is gone after 25 s. Then the
# rate, as a multiple, at which the limit ends.
_REGAINED, _FREE = 0.02, 2.0
# In bytes and requests a second. The least that a node goes back to: a reader gets on, and the origin is asked again.
_LEAST = (64 * 1024.0, 1.0)
# Minimum recovery a second, and minimum rate at which the limit ends. A refusal of the first request shows no rate.
_LEAST_REGAINED = (4 * 1024**2, 0.5)
_LEAST_FREE = (256 * 1024**2, 30.0)
# Seconds over which rates are measured, and seconds without requests after which a node counts as inactive.
_MEAN, _LINGER = 5.0, 30.0
# A node that requests less than this share of the default rate, for this number of seconds, needs no share. The time is
# long. Otherwise a node with rare small requests would gain and lose a share each time.
_LITTLE, _NEEDED = 0.5, 300.0
_YOUNG = 0.2  # seconds: the least over which a mean is taken
# Seconds between two counts. A count takes four exponentials, which were a tenth of the fetcher's cost of a small file.
_COLLECTED = 0.05


@dataclass
class TokenAllowance:
    """A token bucket that may go negative: a request goes if nothing is owed, and pays for its size afterwards.

    So the length of the queue does not matter, and a piece larger than one second's tokens still passes. ``rate``: a
    second; infinite: no limit.
    """

    rate: float = inf
    tokens: float = 0.0
    at: float = 0.0

    def change(self, rate: float, now: float) -> None:
        """Change the rate. Debt stays and is paid off at the new rate."""
        self._refill(now)
        self.rate = rate

    def wait(self, now: float) -> float:
        """Return the seconds until something may go."""
        if self.rate == inf:
            return 0.0
        self._refill(now)
        if self.tokens >= 0:
            return 0.0
        return -self.tokens / self.rate if self.rate > 0 else inf

    def take(self, amount: float, now: float) -> None:
        """Pay."""
        if self.rate != inf:
            self._refill(now)
            self.tokens -= amount

    def _refill(self, now: float) -> None:
        if self.rate == inf:
            self.tokens = 0.0
        else:
            self.tokens = min(self.rate * _BURST, self.tokens + (now - self.at) * self.rate)
        self.at = now


@dataclass
class RecentRate:
    """A mean of the last seconds, of amounts a second."""

    _sum: float = 0.0
    _began: float = -inf
    _at: float = -inf

    def add(self, amount: float, now: float) -> None:
        """Count."""
        if now - self._at > _LINGER:
            self._began, self._sum = now, 0.0
        else:
            self._sum *= exp((self._at - now) / _MEAN)
        self._at = now
        self._sum += amount

    def rate(self, now: float) -> float:
        """Return the mean."""
        if self._at == -inf:
            return 0.0
        age = max(_YOUNG, now - self._began)
        return self._sum * exp((self._at - now) / _MEAN) / (_MEAN * (1 - exp(-age / _MEAN)))


@dataclass
class _Spent:
    """Approximate sum of the requests of the last half minute."""

    _sum: float = 0.0
    _at: float = 0.0

    def add(self, amount: float, now: float) -> float:
        """Add an amount. Return the decayed sum."""
        self._sum = self._sum * exp((self._at - now) / _LINGER) + amount
        self._at = now
        return self._sum


@dataclass
class _Yielding:
    """A rate that this node holds itself to: ``start`` at ``since``, more by ``slope`` each second, up to ``free``."""

    start: float
    slope: float
    free: float
    since: float

    def at(self, now: float) -> float:
        """Return the rate; infinite once it is regained."""
        rate = self.start + (now - self.since) * self.slope
        return inf if rate >= self.free else rate


def _yielding(kind: int, enough: float, now: float) -> _Yielding:
    """Give way from a rate at which the origin has enough; ``kind``: 0 for bytes, 1 for requests."""
    start = max(_LEAST[kind], enough * _DECREASE)
    slope = max(_LEAST_REGAINED[kind], enough * _REGAINED)
    return _Yielding(start, slope, max(_LEAST_FREE[kind], enough * _FREE), now)


@dataclass
class OriginPace:
    """The rate limits and the use of one origin on this node. All times: seconds of one monotonic clock.

    ``fetched``: time of the last request. ``throttled``: when the origin last asked for fewer requests. ``waiting``:
    requests that wait. ``held``: when one last waited. ``needed``: when the use last exceeded the limit of a node
    without a share; see ``knows_beginning``.
    """

    bytes: TokenAllowance = field(default_factory=TokenAllowance)
    requests: TokenAllowance = field(default_factory=TokenAllowance)
    fetched: float = -inf
    throttled: float = -inf
    needed: float = -inf
    held: float = -inf
    knows_beginning: bool = False
    _beginning: tuple[float, float] = (inf, inf)
    _spent: tuple[_Spent, _Spent] = field(default_factory=lambda: (_Spent(), _Spent()))
    _share: tuple[float, float] = (inf, inf)
    waiting: int = 0
    _counted: float = -inf
    _new: tuple[int, int] = (0, 0)  # bytes and requests that are not counted yet
    _yielding: tuple[_Yielding | None, _Yielding] | None = None
    _meters: tuple[RecentRate, RecentRate] = field(default_factory=lambda: (RecentRate(), RecentRate()))

    def set_share(self, bytes_per_second: float | None, requests_per_second: float | None, now: float) -> None:
        """Set a new share; None: no limit."""
        self._share = (
            inf if bytes_per_second is None else bytes_per_second,
            inf if requests_per_second is None else requests_per_second,
        )
        self._apply(now)

    def set_beginning(self, bytes_per_second: float | None, requests_per_second: float | None) -> None:
        """Set the rates that every node may use without a share; None, None: unknown."""
        self._beginning = (
            inf if bytes_per_second is None else bytes_per_second,
            inf if requests_per_second is None else requests_per_second,
        )
        self.knows_beginning = self._beginning != (inf, inf)

    def hold(self, now: float) -> None:
        """Note that a request has to wait for this one."""
        self.needed = now

    def holds_back(self, now: float) -> bool:
        """Return True if a request waits, or waited within the time over which speeds are measured."""
        return self.waiting > 0 or now - self.held < WINDOW

    def needs_share(self, now: float) -> bool:
        """Return True if the recent use exceeds the limit of a node without a share, or if that limit is unknown."""
        self._count()
        return not self.knows_beginning or self.waiting > 0 or now - self.needed < _NEEDED

    def wait(self, now: float) -> float:
        """Return the seconds until a request of any size may go."""
        if self._yielding is not None:
            self._apply(now)
        elif self.bytes.rate == inf and self.requests.rate == inf:
            return 0.0
        return max(self.bytes.wait(now), self.requests.wait(now))

    def take(self, size: int, now: float) -> None:
        """Note a request for ``size`` bytes that goes."""
        self.bytes.take(size, now)
        self.requests.take(1.0, now)
        self._new = (self._new[0] + size, self._new[1] + 1)
        self.fetched = now
        if now - self._counted >= _COLLECTED:
            self._count()

    def slowed(self, now: float) -> bool:
        """Slow down, since the origin asked for fewer requests.

        Return True if this is not a repeat of the last signal.
        """
        if now - self.throttled < _TOGETHER:
            return False
        self.throttled = now
        self._count()
        size, requests = (
            min(allowance.rate, meter.rate(now))
            for allowance, meter in zip((self.bytes, self.requests), self._meters, strict=True)
        )
        # After requests of hardly any bytes, such as a listing, the limit of bytes is unknown.
        bytes_ = _yielding(0, size, now) if size > _LEAST[0] else None
        self._yielding = (bytes_, _yielding(1, requests, now))
        self._apply(now)
        return True

    def fetching(self, now: float) -> bool:
        """Return True if a request waits, or the last one is at most half a minute old.

        A small share means a long wait.
        """
        return self.waiting > 0 or now - self.fetched < _LINGER

    def rates(self, now: float) -> tuple[float, float]:
        """Return the bytes and the requests a second that were asked for lately."""
        self._count()
        return self._meters[0].rate(now), self._meters[1].rate(now)

    @property
    def yields(self) -> bool:
        """Whether it goes slower than its share at the moment."""
        return self._yielding is not None

    def idle(self, now: float) -> bool:
        """Return True if the origin has no state to remember."""
        return not (self.waiting or self.fetching(now) or self.yields or now - self.throttled < 2 * _LINGER)

    def _count(self) -> None:
        """Count the collected requests, as of the time of the last one."""
        (size, requests), at, self._new = self._new, self.fetched, (0, 0)
        if not requests:
            return
        self._counted = at
        self._meters[0].add(size, at)
        self._meters[1].add(requests, at)
        spent = (self._spent[0].add(size, at), self._spent[1].add(requests, at))
        if any(one > _LITTLE * most * _LINGER for one, most in zip(spent, self._beginning, strict=True)):
            self.needed = at

    def _apply(self, now: float) -> None:
        own = tuple(inf if one is None else one.at(now) for one in self._yielding or (None, None))
        if own == (inf, inf):
            self._yielding = None
        for allowance, share, mine in zip((self.bytes, self.requests), self._share, own, strict=True):
            if allowance.rate != min(share, mine):
                allowance.change(min(share, mine), now)


def to_one_digit(rate: float) -> int:
    """Cut a rate to one digit for reports. More digits would change at each report."""
    whole = int(rate)
    step = int(10 ** (len(str(whole)) - 1))
    return whole // step * step
