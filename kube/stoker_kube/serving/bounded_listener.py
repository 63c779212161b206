"""A listening port that bounds its connections; asyncio accepts without any limit."""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from stoker_kube.serving.connections import Connection, Connections

log = logging.getLogger(__name__)

_BACKLOG = 4096  # connections that the kernel completes before they are accepted
_AT_ONCE = 16  # accepted before other work of the event loop gets its turn
_REST = 0.01  # seconds after that during a flood, whose clients dial again as soon as they are closed
_PAUSE = 1.0  # seconds without accepting after an error such as too many open files
_QUIET = 60.0  # seconds between two log lines of one port


class BoundedListener:
    """Accepts TCP or TLS connections within the limits of ``connections``.

    ``handler`` returns the protocol of a connection. ``by_certificate``: the TLS context requires client certificates,
    so a completed handshake makes a connection trusted. Otherwise ``trust`` of ``connections`` does. Where neither
    happens (``limits.trusted`` is 0), ``limits.seconds / 2`` bound the time to the first bytes, and the handler has to
    bound the rest.
    """

    def __init__(
        self,
        connections: Connections,
        handler: Callable[[Connection], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None = None,
        by_certificate: bool = False,
    ) -> None:
        self._connections: Final = connections
        self._handler: Final = handler
        self._tls: Final = tls
        self._by_certificate: Final = by_certificate
        self._port = 0
        self._listening: list[socket.socket] = []
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._accepting: list[asyncio.Task[None]] = []
        self._quiet_until = 0.0
        self._displaced = 0

    async def start(self, host: str | None, port: int) -> int:
        """Bind and accept until ``stop``. Return the bound port. Raises OSError when the port is taken.

        ``host`` None: every address, IPv4 and IPv6. ``port`` 0: a free one.
        """
        self._listening = await _bound(host, port)
        self._port = int(self._listening[0].getsockname()[1])
        name = f"accept on port {self._port}"
        self._accepting = [asyncio.create_task(self._accept(one), name=name) for one in self._listening]
        return self._port

    async def stop(self) -> None:
        """Stop accepting. Open connections stay until their requests are answered.

        Connections before the end of their handshake are closed: the handler no longer closes one that begins later.
        """
        await _end(self._accepting)  # meanwhile the last accepted connections begin, and so can close their sockets
        await _end(list(self._tasks))
        for one in self._listening:
            one.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                await _readable(listening)
                displaced = self._displaced
                for accepted, address in _pending(listening):
                    task = loop.create_task(self._serve(accepted, address))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                await asyncio.sleep(_REST if self._displaced > displaced else 0)
            except OSError as error:
                self._warn("cannot accept connections: %s", error.strerror or str(error))
                await asyncio.sleep(_PAUSE)

    async def _serve(self, accepted: socket.socket, address: str) -> None:
        """Wait for the first bytes, then hand the connection to its handler. Over TLS that waits for the handshake."""
        loop, limits = asyncio.get_running_loop(), self._connections.limits
        task = asyncio.current_task()
        assert task is not None
        connection = Connection(address, task.cancel)
        if not self._admit(connection):
            accepted.close()
            return
        patience = limits.seconds if limits.trusted else limits.seconds / 2  # the handler enforces the rest
        deadline = loop.call_later(patience, _expire, connection)
        try:
            await _readable(accepted)  # a silent connection costs a descriptor and no buffers until then
            if not limits.trusted:
                deadline.cancel()
            await self._hand_over(accepted, connection, deadline)
        except (OSError, asyncio.CancelledError):  # ssl.SSLError is an OSError
            deadline.cancel()
            self._connections.remove(connection)
            accepted.close()

    def _admit(self, connection: Connection) -> bool:
        victim = self._connections.admit(connection)
        if victim is not None:
            self._displaced += 1
            self._warn("too many connections: closing the oldest of %s", victim.address)
            if victim is not connection:
                victim.abort()
        return victim is not connection

    async def _hand_over(self, accepted: socket.socket, connection: Connection, deadline: asyncio.Handle) -> None:
        tracked = TrackedProtocol(self._handler(connection), connection, self._connections, deadline)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: tracked, accepted, ssl=self._tls)
        if self._by_certificate and not self._connections.trust(connection):
            self._warn("too many connections of peers: closing one of %s", connection.address)
            connection.abort()

    def _warn(self, message: str, what: str) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._quiet_until:
            self._quiet_until = now + _QUIET
            log.warning("port %d: " + message, self._port, what)


class TrackedProtocol(asyncio.Protocol):
    """Passes everything on to a handler, and frees the connection's place when it is lost."""

    def __init__(
        self, handler: asyncio.Protocol, connection: Connection, connections: Connections, deadline: asyncio.Handle
    ) -> None:
        self.connection: Final = connection
        self._handler: Final = handler
        self._connections: Final = connections
        self._deadline: Final = deadline
        self.data_received = handler.data_received  # type: ignore[method-assign] # one call less for each read
        self.eof_received = handler.eof_received  # type: ignore[method-assign]
        self.pause_writing = handler.pause_writing  # type: ignore[method-assign]
        self.resume_writing = handler.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self.connection.abort = transport.abort
        self._handler.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._deadline.cancel()
        self._connections.remove(self.connection)
        self._handler.connection_lost(error)


def _expire(connection: Connection) -> None:
    if not connection.trusted:
        connection.abort()


def _pending(listening: socket.socket) -> Iterator[tuple[socket.socket, str]]:
    """Accept some of the waiting connections, with their addresses. A cancelled sock_accept() may lose one."""
    with suppress(BlockingIOError):
        for _ in range(_AT_ONCE):
            accepted, address = listening.accept()
            accepted.setblocking(False)
            yield accepted, str(address[0])


async def _readable(one: socket.socket) -> None:
    """Wait until a socket has bytes or connections."""
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    loop.add_reader(one, came.set)
    try:
        await came.wait()
    finally:
        loop.remove_reader(one)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _bound(host: str | None, port: int) -> list[socket.socket]:
    """Return sockets that listen on every address of the host, or of this machine. Raises OSError."""
    resolve = asyncio.get_running_loop().getaddrinfo
    found = await resolve(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listening: list[socket.socket] = []
    unusable: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(found):
        try:
            listening.append(_listening(family, address))
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):  # such as a machine without IPv6
                for one in listening:
                    one.close()
                raise
            unusable = error
    if not listening:
        raise unusable or OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
    return listening


def _listening(family: int, address: tuple[str | int | bytes, ...]) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # IPv4 has a separate socket, so that its addresses are not mapped
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
        one.listen(_BACKLOG)
        one.setblocking(False)
    except OSError:
        one.close()
        raise
    return one
