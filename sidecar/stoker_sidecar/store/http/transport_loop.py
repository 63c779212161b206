"""HTTP on the event loop, with half of aiohttp's CPU for small and large bodies (docs/adr/0022)."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from aiohappyeyeballs import start_connection

from stoker_sidecar.errors import InvalidSource, SourceError
from stoker_sidecar.store.base import SMALL, WriteChunk, in_chunks
from stoker_sidecar.store.connection import USER_AGENT
from stoker_sidecar.store.core.s3_responses import broken_off, unreachable
from stoker_sidecar.store.http.http_connection import HttpConnection, HttpProtocolError
from stoker_sidecar.store.http.transport import KEEP_ALIVE, HttpRequest, HttpResponse, Peer, until_the_head

_PORTS = {"http": 80, "https": 443}
# Seconds until a parallel connection attempt to the next address, if the first one does not answer (RFC 8305).
_NEXT_ADDRESS = 0.25
# Seconds for which resolved addresses are cached, as in aiohttp. Amazon's names have a TTL of 5 s and then other
# addresses.
_ADDRESSES_GOOD_FOR = 10.0

_Ask = Callable[[HttpConnection], Awaitable[None]]  # sends a request
AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]  # a result of socket.getaddrinfo


class LoopTransport:
    """An HttpTransport on the event loop. It does not support proxies, and sends GET and HEAD only."""

    def __init__(self, peer: Peer, tls: ssl.SSLContext) -> None:
        url = urlsplit(peer.url)
        self._peer = peer
        self._name = url.hostname or ""
        self._tls = tls if url.scheme == "https" else None
        self._addresses = HostAddresses(self._name, url.port or _PORTS[url.scheme])
        self._standing = f"host: {peer.address.host}\r\nuser-agent: {USER_AGENT}\r\naccept-encoding: identity\r\n"
        self._idle: dict[HttpConnection, float] = {}  # with its idle time's start on the loop's clock, the oldest first
        self._sweep: asyncio.TimerHandle | None = (
            None  # one timer for all, since a timer per request costs as much as parsing
        )
        self._closed = False

    async def send(self, request: HttpRequest) -> HttpResponse:
        """See HttpTransport."""
        settings = self._peer.settings
        ask = partial(
            HttpConnection.ask,
            head=self._head(request),
            silence=settings.read_timeout,
            seconds=settings.connect_timeout + self._peer.body_seconds(request.length),
            head_only=request.method == "HEAD",
        )
        with until_the_head(self._peer.address.endpoint, HttpProtocolError):
            connection = await self._ask_idle_or_new(ask)
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
        ends = len(lines) + 5  # plus the first line, three standing lines and the empty line
        if (head.count("\r"), head.count("\n")) != (ends, ends):
            raise InvalidSource(f"{request.what} cannot be asked for: its ETag or version has a line break in it")
        return head.encode()

    async def _ask_idle_or_new(self, ask: _Ask) -> HttpConnection:
        """Send a request on an idle or a new connection. Return the connection when the response's head arrived."""
        if (used := self._take()) is not None:
            try:
                return await _asked(used, ask)
            except ConnectionError:
                if used.response.heard:
                    raise
                # The server closed the idle connection, which it may do at any time.
        async with asyncio.timeout(self._peer.connect_seconds):
            fresh = await self._connect()
        return await _asked(fresh, ask)

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
            connection, _ = self._idle.popitem()  # the most recently used one
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
        """Close connections that were idle for KEEP_ALIVE. Run again when the next one is due."""
        loop = asyncio.get_running_loop()
        over = loop.time() - KEEP_ALIVE
        for connection in [one for one, since in self._idle.items() if since <= over]:
            del self._idle[connection]
            connection.close()
        oldest = next(iter(self._idle.values()), None)
        self._sweep = None if oldest is None else loop.call_at(oldest + KEEP_ALIVE, self._close_idle)


async def _asked(connection: HttpConnection, ask: _Ask) -> HttpConnection:
    try:
        await ask(connection)
    except BaseException:  # cancellation too: the next request would get this response
        connection.close()
        raise
    return connection


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
        if self.length is None:
            await in_chunks(self._chunks())(write)
            return
        try:
            if self.length > SMALL:
                await self._connection.pour(self.length, write)
                return
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
    """The addresses of one host, resolved once for all connections within some seconds."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._asked: asyncio.Task[list[AddressInfo]] | None = None
        self._until = 0.0

    async def get(self) -> list[AddressInfo]:
        """Resolve the name. On failure, all waiting callers get the OSError, and the next call tries again."""
        asked = self._asked
        if asked is None or (asked.done() and asyncio.get_running_loop().time() > self._until):
            asked = self._asked = asyncio.create_task(self._ask())
            asked.add_done_callback(self._answered)
        return await asyncio.shield(asked)  # a cancelled caller does not cancel the request of other callers

    async def _ask(self) -> list[AddressInfo]:
        loop = asyncio.get_running_loop()
        try:
            return [*await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)]
        except socket.gaierror as error:  # add the name: a bucket's host differs from the endpoint's
            raise socket.gaierror(error.errno, f"{error.strerror}: {self._host}:{self._port}") from None

    def _answered(self, asked: "asyncio.Task[list[AddressInfo]]") -> None:
        failed = asked.cancelled() or asked.exception() is not None
        self._until = 0.0 if failed else asyncio.get_running_loop().time() + _ADDRESSES_GOOD_FOR
