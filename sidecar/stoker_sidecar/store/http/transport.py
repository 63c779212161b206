"""The interface of HTTP transports for GETs: one on the event loop, and one that supports proxies."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stoker_sidecar.store.base import WriteChunk
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.s3_requests import BucketAddress
from stoker_sidecar.store.core.s3_responses import unreachable, untrusted

# Seconds that an idle connection stays open, aiohttp's default. S3 closes its end a little later.
KEEP_ALIVE = 15.0
# Least average bytes per second of a body, after the read timeout; a slower body fails. 64 readers on a 10 Mbit/s line
# still get more each, and a slow chunk of 8 MiB blocks its readers for 9 minutes at most.
_SLOWEST = 16 * 1024


class HttpRequest(NamedTuple):
    """A request without a body.

    ``target``: path and query, percent-encoded; ``length``: wanted bytes; ``what``: s3://bucket/key, for messages.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    length: int
    what: str


class HttpResponse(Protocol):
    """A response with a complete head and an unread body.

    All methods raise SourceError if the network fails.
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
        """Length of the body in bytes, as the server states it, or None."""
        ...

    async def read(self, most: int) -> bytes:
        """Read the body, up to ``most`` bytes."""
        ...

    async def stream(self, write: WriteChunk) -> None:
        """Call the function with each chunk of the body; see ``store.base.Stream``."""
        ...

    def release(self) -> None:
        """Return the connection to the transport. Always call it. A fully read body keeps the connection open."""
        ...


class HttpTransport(Protocol):
    """A way to send HTTP requests to one server.

    It opens no connection before the first request, follows no redirects and decompresses no bodies.
    """

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and wait for the head of its response. Raises SourceError if none arrives."""
        ...

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        ...


@dataclass(frozen=True)
class Peer:
    """The server of a transport, and its timeouts."""

    address: BucketAddress
    settings: ConnectionSettings

    @property
    def url(self) -> str:
        """Scheme and host."""
        return f"{self.address.scheme}://{self.address.host}"

    @property
    def connect_seconds(self) -> float:
        """Timeout in seconds of name resolution, connection attempts and TLS together."""
        return 3 * self.settings.connect_timeout

    def body_seconds(self, length: int) -> float:
        """Return the timeout of a whole body in seconds."""
        return self.settings.read_timeout + length / _SLOWEST


@contextmanager
def until_the_head(endpoint: str, no_answer: type[Exception]) -> Iterator[None]:
    """Translate errors before the head of a response into SourceErrors.

    ``no_answer``: the exception for a response that is not HTTP.
    """
    try:
        yield
    except ssl.SSLError as error:
        raise untrusted(endpoint, error) from error
    except (no_answer, TimeoutError, OSError) as error:
        raise unreachable(endpoint, error) from error
