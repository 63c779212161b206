"""What GETs need of HTTP: a transport on the event loop for small bodies, one in threads for large ones, one for proxies."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from stoker_sidecar.store.base import WriteChunk
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.s3_address import BucketAddress
from stoker_sidecar.store.error_responses import unreachable, untrusted

# Seconds that a connection stays open unused, as aiohttp has it: S3 closes its end a little later.
KEEP_ALIVE = 15.0
# Bytes a second that a body must have on average beyond the read timeout, or it is given up: 64 readers that share a
# line of 10 Mbit/s still get more each, and a chunk of 8 MiB that drips cannot hold its readers for more than 9 minutes.
_SLOWEST = 16 * 1024


@dataclass(frozen=True)
class Request:
    """``target``: path and query, percent-encoded; ``length``: bytes that are wanted; ``what``: s3://bucket/key, for messages."""

    method: str
    target: str
    headers: Mapping[str, str]
    length: int
    what: str


class Response(Protocol):
    """Its head has come; the body waits to be taken. Everything raises SourceError when the network fails."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Asked for by lower-case names."""
        ...

    @property
    def length(self) -> int | None:
        """Bytes of the body, as the server says; None when it does not."""
        ...

    async def read(self, most: int) -> bytes:
        """The body up to so many bytes."""
        ...

    async def stream(self, write: WriteChunk) -> None:
        """As ``store.base.Stream``."""
        ...

    def release(self) -> None:
        """Has to be called. The connection stays open when the body was taken to its end."""
        ...


class Transport(Protocol):
    """Opens no connection before the first request. Follows no redirects, and unpacks no bodies."""

    async def send(self, request: Request) -> Response:
        """Raises SourceError when no answer comes."""
        ...

    async def aclose(self) -> None:
        """Closes the connections. Idempotent."""
        ...


@dataclass(frozen=True)
class Peer:
    """Whom a transport speaks to, and how patiently."""

    address: BucketAddress
    settings: ConnectionSettings

    @property
    def url(self) -> str:
        """Without a path."""
        return f"{self.address.scheme}://{self.address.host}"

    @property
    def connect_seconds(self) -> float:
        """For name, connections to each address and TLS together."""
        return 3 * self.settings.connect_timeout

    def body_seconds(self, length: int) -> float:
        """For a whole body."""
        return self.settings.read_timeout + length / _SLOWEST


@contextmanager
def until_the_head(endpoint: str, no_answer: type[Exception]) -> Iterator[None]:
    """What may go wrong until the head of an answer has come, as SourceErrors. ``no_answer``: raised for what is not HTTP."""
    try:
        yield
    except ssl.SSLError as error:
        raise untrusted(endpoint, error) from error
    except (no_answer, TimeoutError, OSError) as error:
        raise unreachable(endpoint, error) from error
