"""Origins: the parts of object stores that share a cap, and a node's shares and reports of each."""

from functools import lru_cache
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field

from stoker_api.datasets.dataset_source import Source
from stoker_api.meta import Model

ALL_ORIGINS = "*"
MOST_ORIGINS = 64  # of one node; further origins have no cap
_INT64 = {"format": "int64"}
_MOST_NAME = 400  # characters: an endpoint and a bucket
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NAME = Annotated[
    str,
    Field(
        description="s3://bucket, https://host:port/bucket, s3:// or https://host:port for all their buckets, * for "
        "all origins.",
        max_length=_MOST_NAME,
    ),
]


class OriginNames(NamedTuple):
    """The names under which caps cover a source: its bucket, its endpoint, and all origins."""

    bucket: str
    endpoint: str

    @property
    def all(self) -> tuple[str, ...]:
        """Return the three names, the narrowest first."""
        return (self.bucket, self.endpoint, ALL_ORIGINS)


def origin_names(source: Source) -> OriginNames | None:
    """Return the names of a source's bucket and endpoint. Return None for a folder, which has no cap."""
    if not source.uri.startswith("s3://"):
        return None
    bucket = source.uri.removeprefix("s3://").partition("/")[0]
    endpoint = endpoint_name(source.endpoint)
    return OriginNames(bucket_name(endpoint, bucket), endpoint)


@lru_cache(1024)
def endpoint_name(url: str | None) -> str:
    """Return the canonical name of an endpoint. ``s3://`` is Amazon's."""
    if not url:
        return "s3://"
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    shown = f"[{host}]" if ":" in host else host
    port = parts.port if parts.port != _DEFAULT_PORTS.get(parts.scheme) else None
    return f"{parts.scheme}://{shown}" + (f":{port}" if port else "")


def bucket_name(endpoint: str, bucket: str) -> str:
    """Return the name of a bucket at an endpoint from ``endpoint_name``."""
    return f"{endpoint}{bucket}" if endpoint.endswith("//") else f"{endpoint}/{bucket}"


def endpoint_of(bucket: str) -> str:
    """Return the endpoint of a bucket name from ``bucket_name``."""
    return "s3://" if bucket.startswith("s3://") else bucket.rpartition("/")[0]


class OriginShare(Model):
    """A node's share of one origin."""

    name: _NAME
    bytes_per_second: Annotated[int | None, Field(description="Absent: no limit.", ge=0, json_schema_extra=_INT64)] = (
        None
    )
    milli_requests_per_second: Annotated[
        int | None,
        Field(
            description="Thousandths of requests, because shares are small. Absent: no limit.",
            ge=0,
            json_schema_extra=_INT64,
        ),
    ] = None
    beginning_bytes_per_second: Annotated[
        int | None,
        Field(
            description="Initial rate of every node, with or without a share. A node that uses less than half of it "
            "for five minutes returns its share. Absent: no limit.",
            ge=0,
            json_schema_extra=_INT64,
        ),
    ] = None
    beginning_milli_requests_per_second: Annotated[
        int | None, Field(description="The initial rate in thousandths of requests.", ge=0, json_schema_extra=_INT64)
    ] = None


class NodeOrigin(Model):
    """A node's use of one bucket, while it fetches from it or after a recent SlowDown."""

    name: _NAME
    fetching: Annotated[
        bool,
        Field(
            description="The node sent a request within the last 30 seconds, or waits to. Within five minutes it "
            "wanted more than the initial rate."
        ),
    ] = False
    bytes_per_second: Annotated[int, Field(description="Wanted rate, to one digit.", json_schema_extra=_INT64)] = 0
    milli_requests_per_second: Annotated[
        int, Field(description="Wanted rate in thousandths of requests, to one digit.", json_schema_extra=_INT64)
    ] = 0
    throttled_at: Annotated[
        str | None,
        Field(
            description="Time of the last SlowDown answer. Later answers within 10 s are not reported.",
            json_schema_extra={"format": "date-time"},
        ),
    ] = None
