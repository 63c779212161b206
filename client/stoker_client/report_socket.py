"""Sends lines to the pod's report socket, and never waits, raises or prints: training goes on whoever listens."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping

_VARIABLE = "STOKER_REPORT_SOCKET"
_MOST_BYTES = 4096  # of a line; a longer one would be refused


def encode(line: Mapping[str, object]) -> bytes:
    """Return a line as it is sent; nothing where it is no JSON or longer than the protocol takes."""
    try:
        data = json.dumps({"v": 1, **line}, ensure_ascii=False).encode()
    except (TypeError, ValueError):
        return b""
    return data if len(data) <= _MOST_BYTES else b""


class ReportSocket:
    """The socket of docs/REPORTS.md. ``path``: left out, what STOKER_REPORT_SOCKET says; without it nothing is sent."""

    def __init__(self, path: str | None = None) -> None:
        self._path = os.environ.get(_VARIABLE, "") if path is None else path
        self._socket: socket.socket | None = None

    def __bool__(self) -> bool:
        """Whether there is somebody to send to."""
        return bool(self._path)

    def send(self, data: bytes) -> bool:
        """Send a line that was encoded, and return whether it went out. Raises nothing that the socket can raise."""
        if not self._path:
            return False
        try:
            # By path each time: after an upgrade of the node's sidecar another socket has that path.
            self._opened().sendto(data, self._path)
        except (OSError, AttributeError):  # AttributeError: a platform without Unix sockets
            return False
        return True

    def close(self) -> None:
        """Close it; it opens again when something is sent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __del__(self) -> None:
        """Close it without a warning: who trains has nothing to close."""
        if getattr(self, "_socket", None) is not None:
            self.close()

    def _opened(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
        return self._socket
