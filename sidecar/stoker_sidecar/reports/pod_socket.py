"""The socket of one pod: datagrams of one line each, read as fast as the pod is allowed to speak."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

from stoker_sidecar.reports.core.allowance import Allowance
from stoker_sidecar.wire.report_folders import SOCKET_NAME
from stoker_tuning.reports.figures import ReportFigures
from stoker_tuning.reports.line import MOST_BYTES, ReportRefusedError, parse_line

_log = logging.getLogger("stoker.reports")
LINES_PER_SECOND, LINES_AT_ONCE = 20.0, 100.0  # of a pod; eight ranks have two each a second
_LINES_A_TURN = 16  # of one pod before another one's are read
_REST_SECONDS = (
    0.2  # of one that said more than it may; what it says meanwhile waits in the kernel, or is dropped there
)
_ANYONE = 0o666  # whoever the pod runs as; only the pod has a way to the folder


def bind_socket(folder: Path) -> socket.socket:
    """Make the socket of a pod's folder, in place of one that a listener before left. Raises OSError.

    The name is never without a socket, and no link at it is followed; a path of any length will do.
    """
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    fresh = f"/proc/self/fd/{opened}/{SOCKET_NAME}.new"
    try:
        Path(fresh).unlink(missing_ok=True)
        bound.bind(fresh)
        os.chmod(f"{SOCKET_NAME}.new", _ANYONE, dir_fd=opened)
        os.rename(f"{SOCKET_NAME}.new", SOCKET_NAME, src_dir_fd=opened, dst_dir_fd=opened)
    except OSError:
        bound.close()
        raise
    finally:
        os.close(opened)
    return bound


class PodSocket:
    """Reads one pod's lines and keeps their figures. ``clock`` counts seconds; ``on_line`` is called after each.

    ``node``: what all pods together are allowed.
    """

    def __init__(
        self, bound: socket.socket, node: Allowance, clock: Callable[[], float], on_line: Callable[[], None]
    ) -> None:
        self.figures = ReportFigures()
        self._socket = bound
        self._node = node
        self._own = Allowance(LINES_PER_SECOND, LINES_AT_ONCE)
        self._clock = clock
        self._on_line = on_line
        self._loop = asyncio.get_running_loop()
        self._resting: asyncio.TimerHandle | None = None
        self._loop.add_reader(bound, self._read)

    def close(self) -> None:
        """Stop listening; the name of the socket stays until its folder goes."""
        if self._resting is not None:
            self._resting.cancel()
        else:
            self._loop.remove_reader(self._socket)
        self._socket.close()

    def _read(self) -> None:
        for _ in range(_LINES_A_TURN):
            now = self._clock()
            if not self._own.take(now) or not self._node.take(now):
                return self._rest()
            try:
                line = self._socket.recv(MOST_BYTES + 1)  # no descriptors: the kernel closes those that come along
            except OSError:  # nothing is left
                return None
            self._take(line, now)
        return None

    def _take(self, line: bytes, now: float) -> None:
        try:
            self.figures.add(parse_line(line), now)
        except ReportRefusedError as refused:
            self.figures.refuse(str(refused))
        self._on_line()

    def _rest(self) -> None:
        """Read nothing for a moment: a pod that shouts costs no more than one that speaks."""
        self._loop.remove_reader(self._socket)
        self._resting = self._loop.call_later(_REST_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._resting = None
        self._loop.add_reader(self._socket, self._read)
