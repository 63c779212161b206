"""JSON objects with descriptors over a SOCK_SEQPACKET unix socket, one object per packet."""

import json
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

_LARGEST = 64 * 1024
_MOST_FDS = 8  # a packet of Stoker has at most 3
Packet = dict[str, Any]


def send(connection: socket.socket, packet: Packet, fds: Sequence[int] = ()) -> None:
    """Send one object. The receiver gets copies of ``fds``. Raises OSError."""
    socket.send_fds(connection, [json.dumps(packet).encode()], list(fds), socket.MSG_NOSIGNAL)


def receive(connection: socket.socket) -> tuple[Packet, list[int]]:
    """Receive the next object and its descriptors, closed on exec. Raises EOFError at the end, OSError, ValueError."""
    data, fds, _, _ = socket.recv_fds(connection, _LARGEST, _MOST_FDS, socket.MSG_CMSG_CLOEXEC)
    try:
        if not data:
            raise EOFError("the other side has closed the connection")
        packet = json.loads(data)
        if not isinstance(packet, dict):
            raise ValueError(f"a packet is a JSON object, not {packet!r}")
    except (EOFError, ValueError):
        close_all(fds)
        raise
    return packet, list(fds)


def close_all(fds: Sequence[int]) -> None:
    """Close unneeded descriptors."""
    for fd in fds:
        with suppress(OSError):
            os.close(fd)
