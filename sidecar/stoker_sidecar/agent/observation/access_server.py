"""The agent's socket for accesses: the node's observer and FUSE servers connect and report reads."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker_sidecar.linux import packets
from stoker_sidecar.linux.packets import Packet
from stoker_sidecar.wire.access_protocol import FUSE, OBSERVER, AccessBatch, parse_batch, text_of

log = logging.getLogger(__name__)
# Clients at a time: an observer, and a FUSE server for each mounted version.
_MOST_CLIENTS = 1024


class AccessClient:
    """One connection.

    ``version`` is a FUSE server's; None: the observer, or a client that has not identified itself.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.is_observer = False
        self.version: tuple[str, str] | None = None

    def send(self, packet: Packet, fds: Sequence[int] = ()) -> None:
        """Send a packet. A client that accepts none is disconnected, and reconnects."""
        try:
            packets.send(self.connection, packet, fds)
        except OSError as error:
            log.warning("a client of the socket for accesses does not listen (%s): it is disconnected", error.strerror)
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)


class AccessServer:
    """Accepts clients on ``path``, in the running event loop, and forwards their reports.

    Only root and the group of the socket's folder may connect. ``on_observer`` is called with the observer, and with
    None when it is gone; ``on_asked`` with its request for marks; ``on_batch`` with each batch and its client.
    ``is_counted`` returns True if the FUSE servers of a Dataset's UID should report.
    """

    def __init__(
        self,
        path: Path,
        *,
        on_observer: Callable[[AccessClient | None], None],
        on_asked: Callable[[bool], None],
        on_batch: Callable[[AccessClient, AccessBatch], None],
        is_counted: Callable[[str], bool],
    ) -> None:
        self._path = path
        self._on_observer = on_observer
        self._on_asked = on_asked
        self._on_batch = on_batch
        self._is_counted = is_counted
        self._clients: dict[int, AccessClient] = {}
        self._observer: AccessClient | None = None

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve on the running event loop within the context. Raises OSError."""
        listener = self._listen()
        loop = asyncio.get_running_loop()
        loop.add_reader(listener, self._accept, listener)
        try:
            yield
        finally:
            loop.remove_reader(listener)
            listener.close()
            for client in tuple(self._clients.values()):
                self._drop(client)

    def tell_counting(self) -> None:
        """Tell all FUSE servers whether to count, after a Dataset's setting changed."""
        for client in self._clients.values():
            self._tell(client)

    def _listen(self) -> socket.socket:
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        listener.bind(str(self._path))
        self._path.chmod(0o660)
        os.chown(self._path, -1, self._path.parent.stat().st_gid)
        listener.listen(128)
        return listener

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError as error:
            log.debug("a client of the socket for accesses went away: %s", error)
            return
        if len(self._clients) >= _MOST_CLIENTS:
            connection.close()
            return
        connection.setblocking(False)
        client = self._clients[connection.fileno()] = AccessClient(connection)
        asyncio.get_running_loop().add_reader(connection, self._receive, client)

    def _receive(self, client: AccessClient) -> None:
        try:
            packet, fds = packets.receive(client.connection)
            packets.close_all(fds)
            self._take(client, packet)
        except BlockingIOError:
            return
        except (OSError, EOFError):
            self._drop(client)
        except ValueError as error:
            log.warning("a client of the socket for accesses is disconnected: %s", error)
            self._drop(client)

    def _take(self, client: AccessClient, packet: Packet) -> None:
        match packet.get("op"), packet.get("from"):
            case "hello", str(who) if who == OBSERVER:
                self._welcome_observer(client)
            case "hello", str(who) if who == FUSE:
                client.version = text_of(packet, "uid"), text_of(packet, "digest")
                self._tell(client)
            case "accesses", _ if client.is_observer or client.version:
                self._on_batch(client, parse_batch(packet))
            case "marks", _ if client.is_observer and isinstance(packet.get("on"), bool):
                self._on_asked(packet["on"])
            case _:
                raise ValueError(f"it sent {packet!r:.200}, which the agent does not know")

    def _welcome_observer(self, client: AccessClient) -> None:
        before, self._observer = self._observer, client
        client.is_observer = True
        if before is not None and before is not client:
            self._drop(before)
        self._on_observer(client)

    def _tell(self, client: AccessClient) -> None:
        if client.version is not None:
            client.send({"op": "count", "on": self._is_counted(client.version[0])})

    def _drop(self, client: AccessClient) -> None:
        if self._clients.pop(client.connection.fileno(), None) is None:
            return
        asyncio.get_running_loop().remove_reader(client.connection)
        client.connection.close()
        if client is self._observer:
            self._observer = None
            self._on_observer(None)
