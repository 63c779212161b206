"""HTTP on the event loop with little CPU for each request, so for small bodies: half of aiohttp's (docs/adr/0020)."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from aiohappyeyeballs import start_connection

from stoker_sidecar.errors import InvalidSource, SourceError
from stoker_sidecar.store.base import SMALL, WriteChunk, in_chunks
from stoker_sidecar.store.connection import USER_AGENT
from stoker_sidecar.store.core.s3_responses import broken_off, unreachable
from stoker_sidecar.store.http_connection import HttpConnection, HttpProtocolError
from stoker_sidecar.store.transport import KEEP_ALIVE, HttpRequest, HttpResponse, Peer, until_the_head

_PORTS = {"http": 80, "https": 443}
# Seconds until a connection to the next address is tried beside one that does not answer (RFC 8305).
_NEXT_ADDRESS = 0.25
# Seconds that addresses are good for; the same as aiohttp's. Amazon's names live for 5, each time with other addresses.
_ADDRESSES_GOOD_FOR = 10.0

AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]  # as socket.getaddrinfo gives it


class LoopTransport:
    """An HttpTransport on the event loop. It knows no proxies, and sends GETs only."""

    def __init__(self, peer: Peer, tls: ssl.SSLContext) -> None:
        url = urlsplit(peer.url)
        self._peer = peer
        self._name = url.hostname or ""
        self._tls = tls if url.scheme == "https" else None
        self._addresses = HostAddresses(self._name, url.port or _PORTS[url.scheme])
        self._standing = f"host: {peer.address.host}\r\nuser-agent: {USER_AGENT}\r\naccept-encoding: identity\r\n"
        self._idle: dict[HttpConnection, float] = {}  # and since when, by the loop's clock: the longest first
        self._sweep: asyncio.TimerHandle | None = None  # one for all: a timer a request costs as much as its parsing
        self._closed = False

    async def send(self, request: HttpRequest) -> HttpResponse:
        """See HttpTransport."""
        head = self._head(request)
        seconds = self._peer.settings.connect_timeout + self._peer.body_seconds(request.length)
        with until_the_head(self._peer.address.endpoint, HttpProtocolError):
            connection = await self._ask_idle_or_new(head, seconds)
        return _LoopResponse(connection, self._peer, request, partial(self._released, connection))

    async def aclose(self) -> None:
        """See HttpTransport."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        idle, self._idle = self._idle, {}
        for connection in idle:
            connection.close()

    def _head(self, request: HttpRequest) -> bytes:
        lines = [f"{name}: {value}\r\n" for name, value in request.headers.items() if name != "host"]
        head = f"{request.method} {request.target} HTTP/1.1\r\n{self._standing}{''.join(lines)}\r\n"
        ends = len(lines) + 5  # with the first line, three standing ones and the empty one
        if (head.count("\r"), head.count("\n")) != (ends, ends):
            raise InvalidSource(f"{request.what} cannot be asked for: its ETag or version has a line break in it")
        return head.encode()

    async def _ask_idle_or_new(self, head: bytes, seconds: float) -> HttpConnection:
        """Send a request on an idle or a new connection; returns it once the head of the response has come."""
        if (used := self._take()) is not None:
            try:
                return await self._ask(used, head, seconds)
            except ConnectionError:
                if used.response.heard:
                    raise
                # The server closed it while it was idle, which it may at any time.
        async with asyncio.timeout(self._peer.connect_seconds):
            fresh = await self._connect()
        return await self._ask(fresh, head, seconds)

    async def _ask(self, connection: HttpConnection, head: bytes, seconds: float) -> HttpConnection:
        try:
            await connection.ask(head, self._peer.settings.read_timeout, seconds)
        except BaseException:  # cancellation too: the response would be taken for the next one's
            connection.close()
            raise
        return connection

    async def _connect(self) -> HttpConnection:
        addresses = await self._addresses.get()
        self._peer.settings.check_addresses(self._name, (str(one[4][0]) for one in addresses))
        its_socket = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS, interleave=1)
        name = self._name if self._tls is not None else None
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            HttpConnection, sock=its_socket, ssl=self._tls, server_hostname=name
        )
        return connection

    def _take(self) -> HttpConnection | None:
        while self._idle:
            connection, _ = self._idle.popitem()  # the one that was used last
            if connection.usable:
                return connection
        return None

    def _released(self, connection: HttpConnection) -> None:
        if not connection.usable or self._closed:
            connection.close()
            return
        connection.rest()
        loop = asyncio.get_running_loop()
        self._idle[connection] = loop.time()
        if self._sweep is None:
            self._sweep = loop.call_later(KEEP_ALIVE, self._close_idle)

    def _close_idle(self) -> None:
        """Close what has been idle for long enough; come again when the next one will have been."""
        loop = asyncio.get_running_loop()
        over = loop.time() - KEEP_ALIVE
        for connection in [one for one, since in self._idle.items() if since <= over]:
            del self._idle[connection]
            connection.close()
        oldest = next(iter(self._idle.values()), None)
        self._sweep = None if oldest is None else loop.call_at(oldest + KEEP_ALIVE, self._close_idle)


class _LoopResponse:
    """An HttpResponse on a connection of the event loop."""

    def __init__(self, connection: HttpConnection, peer: Peer, request: HttpRequest, release: "partial[None]") -> None:
        self._connection = connection
        self._names = peer.address.endpoint, request.what
        self.release = release
        self.status = connection.response.status
        self.headers = connection.response.headers
        self.length = connection.response.length

    async def read(self, most: int) -> bytes:
        data = b""
        async for piece in self._chunks():
            data += piece
            if len(data) >= most:
                break
        return data[:most]

    async def stream(self, write: WriteChunk) -> None:
        if self.length is None or self.length > SMALL:
            await in_chunks(self._chunks())(write)
            return
        try:
            pieces = await self._connection.whole()
        except (HttpProtocolError, OSError) as error:
            raise self._broken(error) from error
        for data in pieces:
            write(data)

    async def _chunks(self) -> AsyncIterator[bytes]:
        try:
            async for data in self._connection.chunks():
                yield data
        except (HttpProtocolError, OSError) as error:
            raise self._broken(error) from error

    def _broken(self, error: Exception) -> SourceError:
        endpoint, what = self._names
        return unreachable(endpoint, error) if isinstance(error, TimeoutError) else broken_off(endpoint, what)


class HostAddresses:
    """The addresses of one host, asked for once for all connections that begin within some seconds."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._asked: asyncio.Task[list[AddressInfo]] | None = None
        self._until = 0.0

    async def get(self) -> list[AddressInfo]:
        """Resolve the name; when that fails, all who wait get the OSError, and the next call asks again."""
        asked = self._asked
        if asked is None or (asked.done() and asyncio.get_running_loop().time() > self._until):
            asked = self._asked = asyncio.create_task(self._ask())
            asked.add_done_callback(self._answered)
        return await asyncio.shield(asked)  # one that is cancelled leaves the others their answer

    async def _ask(self) -> list[AddressInfo]:
        loop = asyncio.get_running_loop()
        try:
            return [*await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)]
        except socket.gaierror as error:  # says which name: a bucket's own host is not the endpoint's
            raise socket.gaierror(error.errno, f"{error.strerror}: {self._host}:{self._port}") from None

    def _answered(self, asked: "asyncio.Task[list[AddressInfo]]") -> None:
        failed = asked.cancelled() or asked.exception() is not None
        self._until = 0.0 if failed else asyncio.get_running_loop().time() + _ADDRESSES_GOOD_FOR
