"""HTTP with aiohttp through proxies, which LoopTransport does not support."""

import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager

import aiohttp
from yarl import URL

from stoker_sidecar.store.base import WriteChunk, in_chunks
from stoker_sidecar.store.connection import USER_AGENT, proxy_for
from stoker_sidecar.store.core.s3_responses import broken_off, unreachable, untrusted
from stoker_sidecar.store.http.transport import HttpRequest, HttpResponse, Peer

# Bytes of a body in memory above which reading from the socket pauses. Large ranges take 15 % less CPU than with
# aiohttp's 64 KiB.
_BUFFER = 256 * 1024


class ProxiedTransport:
    """An HttpTransport with aiohttp, through the proxy in the environment."""

    def __init__(self, peer: Peer, tls: ssl.SSLContext) -> None:
        self._peer = peer
        self._session = aiohttp.ClientSession(
            # No limit here: the fetcher already limits the requests in flight.
            connector=aiohttp.TCPConnector(limit=0, ssl=tls),
            auto_decompress=False,  # return the bytes as stored, without regard to Content-Encoding
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            skip_auto_headers=("Accept",),
            proxy=proxy_for(peer.url),
            read_bufsize=_BUFFER,
        )

    async def send(self, request: HttpRequest) -> HttpResponse:
        """See HttpTransport."""
        url = URL(self._peer.url + request.target, encoded=True)
        timeout = _timeout(self._peer, request.length)
        endpoint = self._peer.address.endpoint
        with _translated(endpoint, request.what):
            response = await self._session.request(
                request.method, url, headers=request.headers, timeout=timeout, allow_redirects=False
            )
        return _ProxiedResponse(response, endpoint, request.what)

    async def aclose(self) -> None:
        """See HttpTransport."""
        await self._session.close()


class _ProxiedResponse:
    """An HttpResponse of aiohttp."""

    def __init__(self, response: aiohttp.ClientResponse, endpoint: str, what: str) -> None:
        self._response = response
        self._names = endpoint, what
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self.length = response.content_length

    async def read(self, most: int) -> bytes:
        with _translated(*self._names):
            return await self._response.content.read(most)

    async def stream(self, write: WriteChunk) -> None:
        await in_chunks(self._chunks())(write)

    def release(self) -> None:
        self._response.release()  # closes the connection if the body was not read fully

    async def _chunks(self) -> AsyncIterator[bytes]:
        with _translated(*self._names):
            while data := await self._response.content.readany():
                yield data


def _timeout(peer: Peer, length: int) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=peer.settings.connect_timeout + peer.body_seconds(length),
        connect=peer.connect_seconds,
        sock_connect=peer.settings.connect_timeout,
        sock_read=peer.settings.read_timeout,
    )


@contextmanager
def _translated(endpoint: str, what: str) -> Iterator[None]:
    try:
        yield
    except (ssl.SSLError, aiohttp.ClientSSLError) as error:
        raise untrusted(endpoint, error) from error
    except aiohttp.ClientPayloadError as error:
        raise broken_off(endpoint, what) from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise unreachable(endpoint, error) from error
