"""The socket between keeper and child: the child starts on the keeper's signal, and sends heartbeats."""

import os
import select
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

# Some may be lost on a busy machine: the kill threshold is much larger (see keeper/watchdog.py).
HEARTBEAT_SECONDS = 0.5
_BYTE = b"."


class Heartbeat:
    """The child's end of the line. ``fd`` None means no keeper: the child starts at once and sends nothing."""

    def __init__(self, fd: int | None) -> None:
        self._socket = None if fd is None else socket.socket(fileno=fd)

    def wait_to_begin(self) -> None:
        """Return on the keeper's start signal. Call it after all imports. Exits when the keeper is gone."""
        if self._socket is None:
            return
        self.send()
        # select() refuses descriptors above 1,023, and a keeper of many mounts has them.
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while not poll.poll(HEARTBEAT_SECONDS * 1000):
            self.send()
        if not self._socket.recv(1):
            sys.exit(0)

    def send(self) -> None:
        """Send a heartbeat. The first one means that the process is ready. Never waits."""
        if self._socket is not None:
            with suppress(OSError):  # full: the keeper has enough unread heartbeats; or it is gone
                self._socket.send(_BYTE, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    async def send_forever(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Send heartbeats from the running event loop, with its ``sleep``: a hanging loop sends none."""
        while True:
            self.send()
            await sleep(HEARTBEAT_SECONDS)


class HeartbeatLine:
    """The keeper's end of the line, and the child's until the child has inherited it.

    Call ``heard`` when ``fileno`` is readable.
    """

    def __init__(self) -> None:
        self._ours, self._child = socket.socketpair()
        self._ours.setblocking(False)

    @property
    def child_fd(self) -> int:
        """The child's end, for inheritance."""
        return self._child.fileno()

    def fileno(self) -> int:
        """Return the keeper's end, which is readable when a heartbeat arrives."""
        return self._ours.fileno()

    def close_child_end(self) -> None:
        """Close the copy of the child's end; otherwise its closing would go unnoticed."""
        self._child.close()

    def let_begin(self) -> None:
        """Send the start signal to the child."""
        with suppress(OSError):  # it has ended already
            self._ours.send(_BYTE)

    def heard(self) -> bool:
        """Read the child's heartbeats. Return False if it closed its end."""
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
