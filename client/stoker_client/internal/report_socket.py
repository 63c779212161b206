"""Sends lines to the pod's report socket.

It never waits, raises or prints, so training continues without a listener.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping

_VARIABLE = "STOKER_REPORT_SOCKET"
_MOST_BYTES = 4096  # of a line; a longer one would be refused


def encode(line: Mapping[str, object]) -> bytes:
    """Return the encoded line. Empty if it is not valid JSON or exceeds the protocol's limit."""
    try:
        data = json.dumps({"v": 1, **line}, ensure_ascii=False).encode()
    except (TypeError, ValueError):
        return b""
    return data if len(data) <= _MOST_BYTES else b""


class ReportSocket:
    """The socket of docs/guides/reports.md. ``path`` defaults to $STOKER_REPORT_SOCKET.

    Without a path, nothing is sent.
    """

    def __init__(self, path: str | None = None) -> None:
        self._path = os.environ.get(_VARIABLE, "") if path is None else path
        self._socket: socket.socket | None = None

    def __bool__(self) -> bool:
        """Return True if there is a socket to send to."""
        return bool(self._path)

    def send(self, data: bytes) -> bool:
        """Send an encoded line, and return True on success. Suppresses all socket errors."""
        if not self._path:
            return False
        try:
            # Resolve the path each time: after an upgrade, the new sidecar has another socket there.
            self._opened().sendto(data, self._path)
        except (OSError, AttributeError):  # AttributeError: a platform without Unix sockets
            return False
        return True

    def close(self) -> None:
        """Close the socket. The next send opens it again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __del__(self) -> None:
        """Close the socket without a warning, so that training code need not close it."""
        if getattr(self, "_socket", None) is not None:
            self.close()

    def _opened(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
        return self._socket
