"""The socket between keeper and child: the child begins when told to, and its heartbeat tells that it lives."""

import os
import select
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

# A few may be lost to a busy machine before anyone is patient enough to kill (see keeper/watchdog.py).
HEARTBEAT_SECONDS = 0.5
_BYTE = b"."


class Heartbeat:
    """The child's end of the line. ``fd`` None, for a child that no keeper started: begins at once, tells nobody."""

    def __init__(self, fd: int | None) -> None:
        self._socket = None if fd is None else socket.socket(fileno=fd)

    def wait_to_begin(self) -> None:
        """Return when the keeper says so; to be called when all is imported. Exits when the keeper is gone."""
        if self._socket is None:
            return
        self.send()
        while not select.select([self._socket], [], [], HEARTBEAT_SECONDS)[0]:
            self.send()
        if not self._socket.recv(1):
            sys.exit(0)

    def send(self) -> None:
        """Tell that this process lives: the first time, that it is ready. Never waits."""
        if self._socket is not None:
            with suppress(OSError):  # full: a keeper that does not look needs no more of it; or it is gone
                self._socket.send(_BYTE, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    async def send_forever(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Tell it again and again from the running event loop, whose ``sleep`` it is: a loop that hangs is silent."""
        while True:
            self.send()
            await sleep(HEARTBEAT_SECONDS)


class HeartbeatLine:
    """The keeper's end of the line, and the child's until it has inherited it.

    ``heard`` is asked for when ``fileno`` is readable.
    """

    def __init__(self) -> None:
        self._ours, self._child = socket.socketpair()
        self._ours.setblocking(False)

    @property
    def child_fd(self) -> int:
        """The child's end, for it to inherit."""
        return self._child.fileno()

    def fileno(self) -> int:
        """Return the keeper's end, which is readable when there is something to hear."""
        return self._ours.fileno()

    def close_child_end(self) -> None:
        """Close the copy of what the child has inherited, or its end would never be seen."""
        self._child.close()

    def let_begin(self) -> None:
        """Tell the child to begin."""
        with suppress(OSError):  # it ended before
            self._ours.send(_BYTE)

    def heard(self) -> bool:
        """Read what the child sent. True: heartbeats; False: it closed its end."""
        try:
            return bool(os.read(self._ours.fileno(), 4096))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """Close both ends."""
        self._ours.close()
        self._child.close()
