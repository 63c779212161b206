"""Origins: what of object stores may be capped as one, and what a node is told and says of each."""

from functools import lru_cache
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field

from stoker_api.dataset_source import Source
from stoker_api.meta import Model

ALL_ORIGINS = "*"
MOST_ORIGINS = 64  # of one node that are told and reported; what is beyond them is not capped
_INT64 = {"format": "int64"}
_MOST_NAME = 400  # characters: an endpoint and a bucket
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NAME = Annotated[
    str,
    Field(
        description="s3://bucket, https://host:port/bucket, s3:// or https://host:port for all of "
        "their buckets, * for all of them together.",
        max_length=_MOST_NAME,
    ),
]


class OriginNames(NamedTuple):
    """By which caps a source is meant: that of its bucket, that of its endpoint, and that of all."""

    bucket: str
    endpoint: str

    @property
    def all(self) -> tuple[str, ...]:
        """Return the three of them, the narrowest first."""
        return (self.bucket, self.endpoint, ALL_ORIGINS)


def origin_names(source: Source) -> OriginNames | None:
    """Name the bucket and the endpoint of a source; None for a folder, which nothing caps."""
    if not source.uri.startswith("s3://"):
        return None
    bucket = source.uri.removeprefix("s3://").partition("/")[0]
    endpoint = endpoint_name(source.endpoint)
    return OriginNames(bucket_name(endpoint, bucket), endpoint)


@lru_cache(1024)
def endpoint_name(url: str | None) -> str:
    """Name an endpoint alike however it is written; ``s3://`` is Amazon's."""
    if not url:
        return "s3://"
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    shown = f"[{host}]" if ":" in host else host
    port = parts.port if parts.port != _DEFAULT_PORTS.get(parts.scheme) else None
    return f"{parts.scheme}://{shown}" + (f":{port}" if port else "")


def bucket_name(endpoint: str, bucket: str) -> str:
    """Name a bucket at an endpoint that ``endpoint_name`` named."""
    return f"{endpoint}{bucket}" if endpoint.endswith("//") else f"{endpoint}/{bucket}"


def endpoint_of(bucket: str) -> str:
    """Return the name of the endpoint of a bucket that ``bucket_name`` named."""
    return "s3://" if bucket.startswith("s3://") else bucket.rpartition("/")[0]


class OriginShare(Model):
    """What a node may ask of one origin."""

    name: _NAME
    bytes_per_second: Annotated[
        int | None, Field(description="Absent: as much as it can.", ge=0, json_schema_extra=_INT64)
    ] = None
    milli_requests_per_second: Annotated[
        int | None,
        Field(
            description="Thousandths of requests, as shares are small. Absent: as many as it can.",
            ge=0,
            json_schema_extra=_INT64,
        ),
    ] = None
    beginning_bytes_per_second: Annotated[
        int | None,
        Field(
            description="What every node may ask, given more or not: who asks for less than half of it for five "
            "minutes gives its share back. Absent: no limit.",
            ge=0,
            json_schema_extra=_INT64,
        ),
    ] = None
    beginning_milli_requests_per_second: Annotated[
        int | None, Field(description="The same in thousandths of requests.", ge=0, json_schema_extra=_INT64)
    ] = None


class NodeOrigin(Model):
    """What a node does with one bucket, while it fetches from it or was told lately to ask for less."""

    name: _NAME
    fetching: Annotated[
        bool,
        Field(
            description="It has asked it within the last half minute, or waits to, and within five minutes for more "
            "than every node may without being given a share."
        ),
    ] = False
    bytes_per_second: Annotated[int, Field(description="That it asks for, to one digit.", json_schema_extra=_INT64)] = 0
    milli_requests_per_second: Annotated[
        int, Field(description="Thousandths of requests, to one digit.", json_schema_extra=_INT64)
    ] = 0
    throttled_at: Annotated[
        str | None,
        Field(
            description="When it was told last to ask for less (SlowDown); a later one within 10 s is not told.",
            json_schema_extra={"format": "date-time"},
        ),
    ] = None
