"""What administrators allow of object stores and pay for them: the chart's ``origins``, read at one door."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from stoker_api.endpoint import checked_endpoint
from stoker_api.meta import Model, Quantity, parse_quantity
from stoker_api.origin import ALL_ORIGINS, MOST_ORIGINS, OriginNames, bucket_name, endpoint_name

_MOST_REQUESTS = 10_000_000  # a second, of any store
_LEAST_BYTES = 100_000  # a second: with less all nodes wait, and a forgotten suffix is meant
_MOST_PRICE = 1_000_000.0
_BUCKET = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
_PRICE = Annotated[float | None, Field(ge=0, le=_MOST_PRICE)]


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that an origin may be asked for, by all nodes together; None: no limit."""

    bytes_per_second: int | None = None
    milli_requests_per_second: int | None = None  # thousandths, as shares of it are small


NO_CAP = Cap()


class _Row(Model):
    """Base of what the chart says: a name that is not known is refused, lest a cap that was meant hold nothing."""

    model_config = ConfigDict(extra="forbid")


def _checked_rate(text: str) -> str:
    if parse_quantity(text) < _LEAST_BYTES:
        raise ValueError(
            f"{text!r} a second would stop all that fetch: write for example 500Mi, or nothing for no limit"
        )
    return text


class CapLimits(_Row):
    """The most bytes and requests a second."""

    bytes_per_second: Annotated[Quantity, AfterValidator(_checked_rate)] | None = None
    requests_per_second: Annotated[int | None, Field(ge=1, le=_MOST_REQUESTS)] = None

    @property
    def cap(self) -> Cap:
        """Return them as numbers."""
        size, requests = self.bytes_per_second, self.requests_per_second
        return Cap(None if size is None else parse_quantity(size), None if requests is None else requests * 1000)


class OriginPrice(_Row):
    """What it costs, in a currency that people know."""

    per_gb: Annotated[_PRICE, Field(alias="perGB")] = None
    per_thousand_requests: _PRICE = None


class OriginRow(CapLimits):
    """Caps and prices of one bucket, or of all buckets of an endpoint together."""

    endpoint: Annotated[str | None, Field(max_length=300), AfterValidator(checked_endpoint)] = None
    bucket: Annotated[str | None, Field(pattern=_BUCKET)] = None
    price: OriginPrice = OriginPrice()

    @property
    def name(self) -> str:
        """Return the name of the origin."""
        endpoint = endpoint_name(self.endpoint)
        return bucket_name(endpoint, self.bucket) if self.bucket else endpoint


class OriginPolicy(_Row):
    """All that the chart says of object stores."""

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
        """Return what a GB and 1,000 requests of a bucket cost: as its row says, its endpoint's, or the chart."""
        rows = {row.name: row.price for row in self.caps}
        prices = [rows[name] for name in (names.bucket, names.endpoint) if name in rows] + [self.price]
        size = next((one.per_gb for one in prices if one.per_gb is not None), 0.0)
        requests = next((one.per_thousand_requests for one in prices if one.per_thousand_requests is not None), 0.0)
        return size, requests

    def _rows(self) -> Iterator[tuple[str, Cap]]:
        yield from ((row.name, row.cap) for row in self.caps)
        yield ALL_ORIGINS, self.total.cap
