"""HTTP as GETs need it.

A transport on the event loop takes small bodies, one in threads large ones, one knows proxies.
"""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stoker_sidecar.store.base import WriteChunk
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.s3_requests import BucketAddress
from stoker_sidecar.store.core.s3_responses import unreachable, untrusted

# Seconds that a connection stays open unused, as aiohttp has it: S3 closes its end a little later.
KEEP_ALIVE = 15.0
# Bytes a second that a body must bring on average beyond the read timeout, or it is given up: 64 readers that share a
# line of 10 Mbit/s still get more each, and a chunk of 8 MiB that drips keeps its readers for 9 minutes at most.
_SLOWEST = 16 * 1024


class HttpRequest(NamedTuple):
    """A request without a body.

    ``target``: path and query, percent-encoded; ``length``: bytes that are wanted; ``what``: s3://bucket/key, for
    messages. ``ahead``: bytes that it asks for behind those, which are taken later or never; threads alone know that.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    length: int
    what: str
    ahead: int = 0


class HttpResponse(Protocol):
    """A response whose head has come, and whose body waits to be taken.

    All methods raise SourceError when the network fails.
    """

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Values by names in lower case."""
        ...

    @property
    def length(self) -> int | None:
        """Bytes of the body, as the server says; None when it does not say."""
        ...

    async def read(self, most: int) -> bytes:
        """Read the body, up to so many bytes."""
        ...

    async def stream(self, write: WriteChunk) -> None:
        """Call the function with each chunk of the body; see ``store.base.Stream``."""
        ...

    def release(self) -> None:
        """Give the connection back; always to be called. It stays open when the body was taken to its end."""
        ...


class HttpTransport(Protocol):
    """A way to send HTTP requests to one server.

    It opens no connection before the first request, follows no redirects and decompresses no bodies.
    """

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and wait for the head of its response. Raises SourceError when none comes."""
        ...

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        ...


@dataclass(frozen=True)
class Peer:
    """The server that a transport speaks to, and how long it may take."""

    address: BucketAddress
    settings: ConnectionSettings

    @property
    def url(self) -> str:
        """Scheme and host."""
        return f"{self.address.scheme}://{self.address.host}"

    @property
    def connect_seconds(self) -> float:
        """Seconds for name, connections to each address and TLS together."""
        return 3 * self.settings.connect_timeout

    def body_seconds(self, length: int) -> float:
        """Return the seconds that a whole body may take."""
        return self.settings.read_timeout + length / _SLOWEST


@contextmanager
def until_the_head(endpoint: str, no_answer: type[Exception]) -> Iterator[None]:
    """Translate what may go wrong until the head of a response has come into SourceErrors.

    ``no_answer``: the exception for what is not HTTP.
    """
    try:
        yield
    except ssl.SSLError as error:
        raise untrusted(endpoint, error) from error
    except (no_answer, TimeoutError, OSError) as error:
        raise unreachable(endpoint, error) from error
