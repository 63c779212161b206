"""The holder: a small process in a separate pod that keeps a node's FUSE descriptors while no sidecar runs.

A FUSE mount lives while its descriptor is open, and the kernel keeps its requests waiting. The keeper gives the holder
a copy of each descriptor. A keeper that starts on a node without another one takes them back and continues.

The holder answers no FUSE request, reads no file and makes no mount. It stores the packets of the last offer (see
takeover/messages.py) and repeats them to a keeper that says hello.
"""

import argparse
import logging
import os
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker_api.log_lines import log_to_stderr
from stoker_sidecar.errors import TakeoverFailed
from stoker_sidecar.keeper.takeover import messages
from stoker_sidecar.linux import packets
from stoker_sidecar.linux.spawn import raise_open_files

_log = logging.getLogger("stoker.holder")
# Seconds without a keeper after which readers get an error. A successor starts in five to ten. Readers may be in a
# sleep that no signal ends, which the kernel reports after 120 s.
HELD_SECONDS = 90.0
_SEND_SECONDS = 5.0
_MOST_MOUNTS = 4096
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid: struct ucred
Stored = tuple[packets.Packet, list[int]]


@dataclass(eq=False)
class _Client:
    """One connection of a keeper, and the received part of an incomplete offer."""

    connection: socket.socket
    offer: list[Stored] = field(default_factory=list)

    def drop(self) -> None:
        _close(self.offer)
        self.connection.close()


class DescriptorHolder:
    """Holds the descriptors of the last complete offer, for ``seconds`` after its keeper has gone.

    ``clock`` counts seconds.
    """

    def __init__(self, seconds: float = HELD_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._held: list[Stored] = []
        self._owner: _Client | None = None
        self._until = 0.0  # by the clock, while there is no owner
        self._selector = selectors.DefaultSelector()

    def serve(self, path: Path) -> None:
        """Serve on ``path``, for its user and root, until a signal ends the process. Raises OSError."""
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen()  # clients cannot connect before
            self.watch(listener)
            while True:
                self.step(listener)

    def watch(self, listener: socket.socket) -> None:
        """Make ``step`` accept connections of a listening socket."""
        self._selector.register(listener, selectors.EVENT_READ)

    def step(self, listener: socket.socket) -> None:
        """Handle the next packet, or close the descriptors when their time is over."""
        for key, _ in self._selector.select(self._patience()):
            if key.fileobj is listener:
                self._accept(listener)
            else:
                self._receive(key.data)
        if self._patience() == 0:
            _log.warning("no keeper came within %.0f s: %d mounts end", self._seconds, len(self._held) - 1)
            self._replace([])

    def close(self) -> None:
        """Close all connections and descriptors."""
        clients = [key.data for key in self._selector.get_map().values() if key.data is not None]
        for client in clients:
            client.drop()
        self._selector.close()
        self._replace([])

    def _patience(self) -> float | None:
        if self._owner is not None or not self._held:
            return None
        return max(0.0, self._until - self._clock())

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.settimeout(_SEND_SECONDS)
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(raw)[1] not in (0, os.geteuid()):
            connection.close()
            return
        self._selector.register(connection, selectors.EVENT_READ, _Client(connection))

    def _receive(self, client: _Client) -> None:
        try:
            self._handle(client, *packets.receive(client.connection))
        except (OSError, EOFError, ValueError, TakeoverFailed) as error:
            if not isinstance(error, EOFError):
                _log.warning("a keeper was sent away: %s", error)
            self._selector.unregister(client.connection)
            client.drop()
            if client is self._owner:
                self._owner, self._until = None, self._clock() + self._seconds

    def _handle(self, client: _Client, packet: packets.Packet, fds: list[int]) -> None:
        if messages.kind_of(packet) == messages.HELLO:
            packets.close_all(fds)
            self._repeat(client.connection)
            return
        client.offer.append((packet, fds))
        if len(fds) != 1:  # for example if a security module refuses the descriptor
            raise TakeoverFailed(f"{len(fds)} descriptors came with a packet instead of one")
        wanted = messages.parse_offer(client.offer[0][0]).mounts
        if not 0 <= wanted <= _MOST_MOUNTS:
            raise TakeoverFailed(f"it offered {wanted} mounts, more than {_MOST_MOUNTS}")
        if len(client.offer) > wanted:
            self._owner = client
            self._replace(client.offer)
            client.offer = []

    def _repeat(self, connection: socket.socket) -> None:
        if not self._held:
            packets.send(connection, messages.offer(messages.Offer(0)))
        for packet, fds in self._held:
            packets.send(connection, packet, fds)

    def _replace(self, offer: list[Stored]) -> None:
        old, self._held = self._held, offer
        _close(old)


def _close(stored: list[Stored]) -> None:
    for _, fds in stored:
        packets.close_all(fds)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the holder until SIGTERM."""
    parser = argparse.ArgumentParser(prog="stoker_sidecar.keeper.holder", description=__doc__)
    parser.add_argument("--socket", type=Path, required=True, help="where keepers connect")
    parser.add_argument("--seconds", type=float, default=HELD_SECONDS, help="without a keeper, until the mounts end")
    options = parser.parse_args(argv)
    log_to_stderr("info")
    raise_open_files()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # PID 1 has no default action
    DescriptorHolder(options.seconds).serve(options.socket)
    return 0


if __name__ == "__main__":
    sys.exit(main())
