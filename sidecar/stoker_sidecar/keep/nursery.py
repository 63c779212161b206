"""The keeper's side of a nursery: has processes forked where all is imported already, or starts them the slow way."""

import asyncio
import logging
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass

from stoker_sidecar.keep.children import Child, Reaper
from stoker_sidecar.keep.forking import order
from stoker_sidecar.keep.restarts import Policy
from stoker_sidecar.keep.spawn import Start, execute

_log = logging.getLogger("stoker.keeper")
# A fork takes 2 ms; beyond this the nursery hangs, and the slow way (0.3 s and more) is the faster one. The keeper waits meanwhile.
_PATIENCE = 0.5
# Comes back at once, and waits for orders in silence.
_POLICY = Policy(stable_after=0.05, longest_delay=5.0, at_once=20, from_ready=True)


@dataclass(frozen=True)
class Kind:
    """What a nursery forks. ``program``: how the same is started without it; ``nursery``: how the nursery is."""

    name: str
    program: tuple[str, ...]
    nursery: tuple[str, ...]


SERVERS = Kind(
    "nursery",
    (sys.executable, "-m", "stoker_sidecar.fs.server"),
    (sys.executable, "-m", "stoker_sidecar.fs.nursery"),
)
FETCHERS = Kind(
    "fetcher nursery",
    (sys.executable, "-m", "stoker_sidecar.fetcher"),
    (sys.executable, "-m", "stoker_sidecar.fetcher_nursery"),
)


class Nursery:
    """Starts processes of one kind (``spawn``): in milliseconds while the nursery lives, else in the time that Python takes."""

    def __init__(self, kind: Kind, reaper: Reaper, uid: int | None) -> None:
        self._kind = kind
        self._uid = uid
        self._child = Child(kind.name, reaper, self._prepare, _POLICY, on_ready=self._is_ready)
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
        return Start(self._kind.nursery, self._uid, {"--orders-fd": self._theirs.fileno()})

    def _is_ready(self) -> None:
        if self._theirs is not None:
            self._theirs.close()  # else its end would never be seen
        self._ready = True

    def _close(self) -> None:
        self._ready = False
        for end in (self._ours, self._theirs):
            if end is not None:
                end.close()

    def start(self, arguments: list[str], uid: int | None, fds: dict[str, int]) -> Start:
        """One that ``spawn`` can have forked."""
        return Start([*self._kind.program, *arguments], uid, fds)

    def spawn(self, start: Start) -> int:
        """Start one; its pid, which is a child of the keeper. Raises OSError and subprocess.SubprocessError."""
        if self._ready and self._ours is not None:
            try:
                return self._order(self._ours, start)
            except (OSError, EOFError, ValueError, KeyError) as error:
                _log.warning(
                    "the %s does not work (%s): a process is started without it",
                    self._kind.name,
                    error or "no answer",
                )
                self._ready = False
                self._child.kill()
        return execute(start)

    def _order(self, connection: socket.socket, start: Start) -> int:
        return order(connection, start.command[len(self._kind.program) :], start.fds)

    def begin(self) -> None:
        """Start it; processes may be asked for at once."""
        self._child.begin()

    async def until_ready(self, seconds: float) -> None:
        """Return when it has imported everything, at the latest after so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._child.ready.wait(), seconds)

    async def stop(self) -> None:
        """End it; the processes that it started go on."""
        await self._child.stop(grace=0)
        self._close()
