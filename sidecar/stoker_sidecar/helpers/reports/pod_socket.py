"""The socket of one pod: datagrams of one line each, read at the pod's allowed rate."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

from stoker_sidecar.helpers.reports.core.allowance import Allowance, NodeAllowance
from stoker_sidecar.wire.config.folders import SOCKET_NAME
from stoker_tuning.reports.figures import ReportFigures
from stoker_tuning.reports.line import MOST_BYTES, ReportRefusedError, parse_line

_log = logging.getLogger("stoker.reports")
LINES_PER_SECOND, LINES_AT_ONCE = 20.0, 100.0  # of a pod; eight ranks send two each a second
_LINES_A_TURN = 16  # of one pod before the next pod's turn
_REST_LINES = 100  # of a pod that has ended
_REST_SECONDS = 0.2  # pause of a pod over its limit; its lines wait in the kernel, or are dropped there
_ANYONE = 0o666  # for any user of the pod; only the pod has a path to the folder


def bind_socket(folder: Path) -> socket.socket:
    """Create the socket in a pod's folder, replacing the previous listener's. Raises OSError.

    The name always has a socket, and no link there is followed. The path may have any length.
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
    """Reads one pod's lines and computes their figures. ``clock`` counts seconds.

    ``on_line`` is called after each line. ``node`` limits all pods together, and those of its ``namespace``.
    """

    def __init__(
        self,
        bound: socket.socket,
        node: NodeAllowance,
        namespace: str,
        clock: Callable[[], float],
        on_line: Callable[[], None],
    ) -> None:
        self.figures = ReportFigures()
        self._socket = bound
        self._node = node
        self._namespace = namespace
        self._own = Allowance(LINES_PER_SECOND, LINES_AT_ONCE)
        self._clock = clock
        self._on_line = on_line
        self._loop = asyncio.get_running_loop()
        self._resting: asyncio.TimerHandle | None = None
        self._loop.add_reader(bound, self._read)

    def read_rest(self) -> None:
        """Read an ended pod's lines from the kernel's queue, up to a bound."""
        for _ in range(_REST_LINES):
            try:
                self._take(self._socket.recv(MOST_BYTES + 1), self._clock())
            except OSError:  # the queue is empty
                return

    def close(self) -> None:
        """Stop listening. The socket's name stays until its folder is removed."""
        if self._resting is not None:
            self._resting.cancel()
        else:
            self._loop.remove_reader(self._socket)
        self._socket.close()

    def _read(self) -> None:
        for _ in range(_LINES_A_TURN):
            now = self._clock()
            # Take the pod's token last: a line beyond the node's limit costs the pod nothing.
            if not self._own.has(now) or not self._node.take(self._namespace, now):
                return self._rest()
            self._own.take(now)
            try:
                line = self._socket.recv(MOST_BYTES + 1)  # no descriptors: the kernel closes received ones
            except OSError:  # the queue is empty
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
        """Pause reading: a pod with too many lines costs no more than a normal one."""
        self._loop.remove_reader(self._socket)
        self._resting = self._loop.call_later(_REST_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._resting = None
        self._loop.add_reader(self._socket, self._read)
