"""The keeper's side of the nursery: has FUSE servers forked where all is imported already, or starts them the slow way."""

import logging
import socket
import sys

from stoker_sidecar.keep import packets
from stoker_sidecar.keep.children import Child, Reaper
from stoker_sidecar.keep.restarts import Policy
from stoker_sidecar.keep.spawn import Start, execute

_log = logging.getLogger("stoker.keeper")
_SERVER = [sys.executable, "-m", "stoker_sidecar.fs.server"]
_NURSERY = [sys.executable, "-m", "stoker_sidecar.fs.nursery"]
# A fork takes 2 ms; beyond this the nursery hangs, and the slow way (0.3 s) is the faster one. The keeper waits meanwhile.
_PATIENCE = 0.5
# Comes back at once, and waits for orders in silence.
_POLICY = Policy(stable_after=0.05, longest_delay=5.0, at_once=20, from_ready=True)


class Nursery:
    """Starts FUSE servers (``spawn``), in milliseconds while the nursery process lives, else in the time that Python takes."""

    def __init__(self, reaper: Reaper, uid: int | None) -> None:
        self._uid = uid
        self._child = Child("nursery", reaper, self._prepare, _POLICY, on_ready=self._is_ready)
        self._ours: socket.socket | None = None
        self._theirs: socket.socket | None = None
        self._ready = False

    @property
    def child(self) -> Child:
        """The process."""
        return self._child

    def _prepare(self) -> Start:
        self._close()
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.settimeout(_PATIENCE)
        return Start(_NURSERY, self._uid, {"--orders-fd": self._theirs.fileno()})

    def _is_ready(self) -> None:
        if self._theirs is not None:
            self._theirs.close()  # else its end would never be seen
        self._ready = True

    def _close(self) -> None:
        self._ready = False
        for end in (self._ours, self._theirs):
            if end is not None:
                end.close()

    @staticmethod
    def start(arguments: list[str], uid: int | None, fds: dict[str, int]) -> Start:
        """A FUSE server."""
        return Start([*_SERVER, *arguments], uid, fds)

    def spawn(self, start: Start) -> int:
        """Start a server; its pid, which is a child of the keeper. Raises OSError and subprocess.SubprocessError."""
        if self._ready and self._ours is not None:
            try:
                return self._order(self._ours, start)
            except (OSError, EOFError, ValueError, KeyError) as error:
                _log.warning("the nursery does not work (%s): a server is started without it", error or "no answer")
                self._ready = False
                self._child.kill()
        return execute(start)

    @staticmethod
    def _order(connection: socket.socket, start: Start) -> int:
        order = {"arguments": list(start.command[len(_SERVER) :]), "flags": list(start.fds)}
        packets.send(connection, order, list(start.fds.values()))
        reply, _ = packets.receive(connection)
        return int(reply["pid"])

    def begin(self) -> None:
        """Start it; servers may be asked for at once."""
        self._child.begin()

    async def stop(self) -> None:
        """End it; the servers that it started go on."""
        await self._child.stop(grace=0)
        self._close()
