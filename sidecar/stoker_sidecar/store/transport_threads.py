"""HTTP by http.client in threads, from the socket into one buffer: half of aiohttp's CPU for large bodies (ADR 18)."""

import asyncio
import select
import socket
import ssl
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TypeVar

from stoker_sidecar.store.base import SMALL, WriteChunk
from stoker_sidecar.store.connection import USER_AGENT
from stoker_sidecar.store.core.s3_responses import broken_off, unreachable
from stoker_sidecar.store.transport import KEEP_ALIVE, HttpRequest, Peer, until_the_head
from stoker_sidecar.threads import to_its_end

T = TypeVar("T")

# Bytes of a body that are collected before they are written, so that a slow line costs no write for each packet.
_LEAST = 64 * 1024
# The most requests that the fetcher lets go at once: its fetcher.core.concurrency.MOST, as a test holds.
MOST_REQUESTS = 256
# A thread for each request that may be in flight, so that none waits for one; made when needed, shared by all datasets.
_THREADS = ThreadPoolExecutor(MOST_REQUESTS, thread_name_prefix="get")


class ThreadTransport:
    """An HttpTransport by http.client in threads. It knows no proxies."""

    def __init__(self, peer: Peer, tls: ssl.SSLContext) -> None:
        self._peer = peer
        self._tls = tls
        self._idle: dict[HTTPConnection, asyncio.TimerHandle] = {}
        self._closed = False

    async def send(self, request: HttpRequest) -> "ThreadResponse":
        """See HttpTransport."""
        connection = self._take()
        asking = asyncio.get_running_loop().run_in_executor(_THREADS, _ask, connection, self._peer, request)
        try:
            with until_the_head(self._peer.address.endpoint, HTTPException):
                async with asyncio.timeout(self._peer.connect_seconds + self._peer.settings.read_timeout):
                    answer, its_socket = await asyncio.shield(asking)
        except BaseException:
            # Cancellation too: a name server may keep the thread for minutes, and it writes nothing yet.
            asking.add_done_callback(lambda ended: connection.close())
            raise
        return ThreadResponse(self._peer, request, answer, its_socket, partial(self._released, connection))

    async def aclose(self) -> None:
        """See HttpTransport."""
        self._closed = True
        for connection in list(self._idle):
            self._drop(connection)

    def _released(self, connection: HTTPConnection, usable: bool) -> None:
        if usable and not self._closed:
            self._idle[connection] = asyncio.get_running_loop().call_later(KEEP_ALIVE, self._drop, connection)
        else:
            connection.close()

    def _take(self) -> HTTPConnection:
        while self._idle:
            connection, timer = self._idle.popitem()  # the one that was used last
            timer.cancel()
            if not _ended(connection.sock):
                return connection
            connection.close()
        host, timeout = self._peer.address.host, self._peer.settings.connect_timeout
        https = self._peer.address.scheme == "https"
        fresh = (
            HTTPSConnection(host, timeout=timeout, context=self._tls)
            if https
            else HTTPConnection(host, timeout=timeout)
        )
        # http.client keeps what dials here, and has no public way to set it: looking afterwards would let a pod's
        # author tell open ports from closed ones.
        vars(fresh)["_create_connection"] = partial(_dial, self._peer)
        return fresh

    def _drop(self, connection: HTTPConnection) -> None:
        self._idle.pop(connection).cancel()
        connection.close()


class ThreadResponse:
    """An HttpResponse of http.client; ``release_connection`` is told whether the connection can be used again.

    Of a request with bytes ``ahead``, ``stream`` takes those that are wanted, and ``go_on`` has it take more.
    """

    def __init__(
        self,
        peer: Peer,
        request: HttpRequest,
        answer: HTTPResponse,
        its_socket: socket.socket,
        release_connection: Callable[[bool], None],
    ) -> None:
        self._peer = peer
        self._request = request
        self._answer = answer
        self._socket = its_socket
        self._release_connection = release_connection
        self._wanted = request.length
        self._taken = answer.length == 0
        if self._taken:  # of a HEAD, or empty: nobody needs to read it for the connection to be used again
            answer.close()
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        self.length = answer.length

    async def read(self, most: int) -> bytes:
        """See HttpResponse."""
        data = await self._in_thread(partial(self._answer.read, most))
        self._taken = self._answer.isclosed()
        return data

    @property
    def ahead(self) -> int:
        """Bytes of the body that were not taken, where the last ``stream`` came to its end; else 0."""
        return self._answer.length or 0 if self._taken else 0

    async def stream(self, write: WriteChunk) -> None:
        """See HttpResponse; of a request with bytes ahead just what is wanted, and it may be called again."""
        self._taken = False
        most = self._wanted if self._request.ahead else sys.maxsize  # else what is beyond shows that it is too long
        taken = await self._in_thread(partial(_take_all, self._answer, self._wanted, most, write))
        if self._answer.length and taken < most:
            raise broken_off(self._peer.address.endpoint, self._request.what)
        self._taken = True

    def go_on(self, length: int) -> None:
        """Have ``stream`` take the next so many bytes, of those that are ``ahead``."""
        self._wanted = length

    def release(self) -> None:
        """See HttpResponse."""
        whole = self._taken and self._answer.isclosed() and not self._answer.length
        self._release_connection(whole and not self._answer.will_close)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        endpoint = self._peer.address.endpoint
        try:
            async with asyncio.timeout(self._peer.body_seconds(self._wanted)):
                return await to_its_end(asyncio.get_running_loop().run_in_executor(_THREADS, work), self._hang_up)
        except HTTPException as error:
            raise broken_off(endpoint, self._request.what) from error
        except OSError as error:
            raise unreachable(endpoint, error) from error

    def _hang_up(self) -> None:
        """Shut the socket down, so that a thread that waits for bytes finds the end of them."""
        with suppress(OSError):  # it has ended already
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # ssl's own would have the thread read undeciphered


def _dial(peer: Peer, address: tuple[str, int], timeout: float, source: object = None) -> socket.socket:
    """Connect as socket.create_connection does, but to no address that an endpoint may not have."""
    host, port = address
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    peer.settings.check_addresses(host, [str(info[4][0]) for info in found])
    failed = OSError(f"{host} has no address")
    for family, kind, protocol, _, where in found:
        its_socket = socket.socket(family, kind, protocol)
        try:
            its_socket.settimeout(timeout)
            its_socket.connect(where)
        except OSError as error:
            its_socket.close()
            failed = error
        else:
            return its_socket
    raise failed


def _ask(connection: HTTPConnection, peer: Peer, request: HttpRequest) -> tuple[HTTPResponse, socket.socket]:
    """Send a request, in a thread; returns the response and the socket.

    ``http.client`` forgets the socket when the server is going to close it.
    """
    fresh = connection.sock is None
    if fresh:
        connection.connect()
    its_socket: socket.socket = connection.sock
    if fresh:
        its_socket.settimeout(peer.settings.read_timeout)
    standing = {"user-agent": USER_AGENT, "accept-encoding": "identity"}
    connection.request(request.method, request.target, headers={**standing, **request.headers})
    return connection.getresponse(), its_socket


def _take_all(answer: HTTPResponse, length: int, most: int, write: WriteChunk) -> int:
    """Read a body, in a thread: as much at a time as is still in the core's own cache when it is written.

    The first SMALL bytes are written when they are there, since a reader may wait for just those. Returns how many were
    read: ``length`` are expected, and no more than ``most`` are taken.
    """
    buffer = memoryview(bytearray(min(length, SMALL)))
    taken = held = 0
    while taken < most and (got := _take(answer, buffer[held : _end_of_step(taken, held, most)])):
        taken, held = taken + got, held + got
        if held >= min(_LEAST, len(buffer)) or taken == SMALL:
            write(buffer[:held])
            held = 0
    if held:
        write(buffer[:held])
    return taken


def _end_of_step(taken: int, held: int, most: int) -> int:
    return held + (min(most, SMALL) if taken < SMALL else most) - taken


def _take(answer: HTTPResponse, buffer: memoryview) -> int:
    """Read what has come, where ``readinto`` waits until the buffer is full; return how many bytes, 0 at the end."""
    if answer.chunked or answer.length is None or answer.isclosed():
        return answer.readinto(buffer)
    got = answer.fp.readinto1(buffer[: answer.length])
    answer.length -= got
    if not (got and answer.length):
        answer.close()
    return got


def _ended(its_socket: socket.socket) -> bool:
    """Tell whether the server has closed an idle connection: it sends nothing else unasked."""
    poll = select.poll()
    poll.register(its_socket, select.POLLIN)
    return bool(poll.poll(0))
