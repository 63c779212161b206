"""The socket between the keeper and one child: the child begins when the keeper says so, and then tells that it lives."""

import asyncio
import os
import select
import socket
import sys
from contextlib import suppress

# A few beats may be lost to a busy machine before anyone is patient enough to kill (see restarts.Policy).
BEAT_SECONDS = 0.5
_BYTE = b"."


class Lifeline:
    """The child's end. ``fd`` None, for a child that no keeper started: begins at once, tells nobody."""

    def __init__(self, fd: int | None) -> None:
        self._socket = None if fd is None else socket.socket(fileno=fd)

    def wait_to_begin(self) -> None:
        """Return when the keeper says so; to be called when all is imported. Exits when the keeper is gone."""
        if self._socket is None:
            return
        self.beat()
        while not select.select([self._socket], [], [], BEAT_SECONDS)[0]:
            self.beat()
        if not self._socket.recv(1):
            sys.exit(0)

    def beat(self) -> None:
        """Tell that this process lives: the first time, that it is ready. Never waits."""
        if self._socket is not None:
            with suppress(OSError):  # full: a keeper that does not look needs no more of it; or it is gone
                self._socket.send(_BYTE, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    async def beat_for_ever(self) -> None:
        """Beat from the running asyncio loop, so that a loop that hangs is silent."""
        while True:
            self.beat()
            await asyncio.sleep(BEAT_SECONDS)


class Line:
    """The keeper's end, and the child's until it has inherited it. ``heard`` is asked for when ``fileno`` is readable."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)

    @property
    def child_fd(self) -> int:
        """For the child to inherit."""
        return self._theirs.fileno()

    def fileno(self) -> int:
        """Readable when there is something to hear."""
        return self._ours.fileno()

    def inherited(self) -> None:
        """The child has its own copy: ours must go, or its end is never seen."""
        self._theirs.close()

    def let_begin(self) -> None:
        """Say so to the child."""
        with suppress(OSError):  # it ended before
            self._ours.send(_BYTE)

    def heard(self) -> bool:
        """True: beats; False: the child closed its end."""
        try:
            return bool(os.read(self._ours.fileno(), 4096))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """Both ends."""
        self._ours.close()
        self._theirs.close()
