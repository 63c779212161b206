"""The chart's ``origins``: the limits and prices of object stores, and how nodes slow down after a SlowDown."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from stoker_api.datasets.endpoint import checked_endpoint
from stoker_api.datasets.origin import ALL_ORIGINS, MOST_ORIGINS, OriginNames, bucket_name, endpoint_name
from stoker_api.meta import Model, Quantity, parse_quantity

_MOST_REQUESTS = 10_000_000  # a second, of any store
_LEAST_BYTES = 100_000  # a second: less makes all nodes wait, and probably lacks a suffix
_MOST_PRICE = 1_000_000.0
_BUCKET = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
_PRICE = Annotated[float | None, Field(ge=0, le=_MOST_PRICE)]


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that all nodes together may take from an origin. None: no limit."""

    bytes_per_second: int | None = None
    milli_requests_per_second: int | None = None  # thousandths, because shares are small


NO_CAP = Cap()


class _Row(Model):
    """Base of the chart's rows. An unknown field is an error, so that a misspelled cap does not go unnoticed."""

    model_config = ConfigDict(extra="forbid")


def _checked_rate(text: str) -> str:
    if parse_quantity(text) < _LEAST_BYTES:
        raise ValueError(
            f"{text!r} a second would stop all downloads: write for example 500Mi, or nothing for no limit"
        )
    return text


class CapLimits(_Row):
    """The most bytes and requests a second."""

    bytes_per_second: Annotated[Quantity, AfterValidator(_checked_rate)] | None = None
    requests_per_second: Annotated[int | None, Field(ge=1, le=_MOST_REQUESTS)] = None

    @property
    def cap(self) -> Cap:
        """Return the limits as numbers."""
        size, requests = self.bytes_per_second, self.requests_per_second
        return Cap(None if size is None else parse_quantity(size), None if requests is None else requests * 1000)


class OriginPrice(_Row):
    """Prices, in the currency that the chart names."""

    per_gb: Annotated[_PRICE, Field(alias="perGB")] = None
    per_thousand_requests: _PRICE = None


class OriginRow(CapLimits):
    """Caps and prices of one bucket, or of all buckets of an endpoint together."""

    endpoint: Annotated[str | None, Field(max_length=300), AfterValidator(checked_endpoint)] = None
    bucket: Annotated[str | None, Field(pattern=_BUCKET)] = None
    price: OriginPrice = OriginPrice()

    @property
    def name(self) -> str:
        """Return the origin's name."""
        endpoint = endpoint_name(self.endpoint)
        return bucket_name(endpoint, self.bucket) if self.bucket else endpoint


class OriginPolicy(_Row):
    """The chart's settings for object stores."""

    caps: Annotated[tuple[OriginRow, ...], Field(max_length=MOST_ORIGINS - 1)] = ()
    total: CapLimits = CapLimits()
    price: OriginPrice = OriginPrice()
    currency: Annotated[str, Field(max_length=16)] = ""

    @model_validator(mode="after")
    def _one_row_for_each_origin(self) -> Self:
        often = [name for name, rows in Counter(row.name for row in self.caps).items() if rows > 1]
        if often:
            raise ValueError(f"caps names {often[0]} twice: name it once, with all its limits and its price")
        return self

    @cached_property
    def by_name(self) -> Mapping[str, Cap]:
        """The caps by origin."""
        return MappingProxyType({name: cap for name, cap in self._rows() if cap != NO_CAP})

    def price_of(self, names: OriginNames) -> tuple[float, float]:
        """Return the price of a GB and of 1,000 requests.

        The bucket's row wins, then its endpoint's, then the chart's.
        """
        rows = {row.name: row.price for row in self.caps}
        prices = [rows[name] for name in (names.bucket, names.endpoint) if name in rows] + [self.price]
        size = next((one.per_gb for one in prices if one.per_gb is not None), 0.0)
        requests = next((one.per_thousand_requests for one in prices if one.per_thousand_requests is not None), 0.0)
        return size, requests

    def _rows(self) -> Iterator[tuple[str, Cap]]:
        yield from ((row.name, row.cap) for row in self.caps)
        yield ALL_ORIGINS, self.total.cap


# A SlowDown takes three tenths off the rate. Reports within a few seconds count once, because requests in flight at the
# first one do not yet follow the lower rate.
_LESS, _TOGETHER = 0.7, 10.0
# Seconds without a SlowDown before each step up by a tenth: 2 minutes from 0.7 to 1.6.
CALM, _MORE = 15.0, 1.1
# Bounds of the factor on the rate at the SlowDown. At the upper bound the slowdown is over.
_LEAST, _FREE = 1 / 16, 2.0


@dataclass
class Slowdown:
    """A SlowDown at one bucket. Times are in seconds since the epoch.

    ``enough``: the rates of all nodes together when the bucket sent it. None: not measured.
    """

    enough: Cap
    factor: float = _LESS
    lowered: float = 0.0
    raised: float = 0.0

    @classmethod
    def begun(cls, measured: Cap, cap: Cap, now: float) -> "Slowdown":
        """Start with the first SlowDown. ``cap``: the administrator's."""
        enough = Cap(
            _less(measured.bytes_per_second or None, cap.bytes_per_second),
            _less(measured.milli_requests_per_second or None, cap.milli_requests_per_second),
        )
        return cls(enough, lowered=now, raised=now)

    def again(self, now: float) -> bool:
        """Apply another SlowDown. Return False if it is an echo of the last one."""
        if 0.0 <= now - self.lowered < _TOGETHER:  # negative: the clock was set back
            return False
        self.factor, self.lowered, self.raised = max(_LEAST, self.factor * _LESS), now, now
        return True

    def rise(self, now: float) -> None:
        """Take a step up after enough calm."""
        self.raised = min(self.raised, now)  # otherwise a clock that was set back delays it
        if now - self.raised >= CALM:
            self.factor, self.raised = self.factor * _MORE, now

    def cap(self, own: Cap) -> Cap:
        """Return the lower of the reduced rate and the administrator's cap ``own``."""
        return Cap(
            _less(_times(self.enough.bytes_per_second, self.factor), own.bytes_per_second),
            _less(_times(self.enough.milli_requests_per_second, self.factor), own.milli_requests_per_second),
        )

    def is_over(self, own: Cap) -> bool:
        """Return True if the slowdown limits nothing."""
        return self.factor >= _FREE or (own != NO_CAP and self.cap(own) == own)


def _times(amount: int | None, factor: float) -> int | None:
    return None if amount is None else max(1, round(amount * factor))


def _less(one: int | None, other: int | None) -> int | None:
    """Return the smaller one. None is no limit."""
    return other if one is None else one if other is None else min(one, other)
