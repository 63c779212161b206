"""The keeper's side of the zygotes, which have loaded imports and fork processes on order.

wire/zygote_orders.py runs in a zygote. The programs are fuse/main.py and fetcher/zygote.py. The fetcher has another
zygote for its workers, without the keeper: worker/main.py.
"""

import asyncio
import logging
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass

from stoker_sidecar.keeper.children import Child, Reaper
from stoker_sidecar.keeper.watchdog import RestartPolicy
from stoker_sidecar.linux.spawn import Start, execute
from stoker_sidecar.wire.zygote_orders import order

_log = logging.getLogger("stoker.keeper")
# A fork takes 10 ms, or 0.6 s with a busy disk and an empty page cache. After these seconds the zygote hangs. The
# keeper's loop waits until then.
_PATIENCE = 2.0
# It sends no heartbeats after the first one. Its imports take a second of CPU.
ZYGOTE = RestartPolicy(stable_after=0.05, longest_delay=5.0, at_once=20, from_ready=True, first_heartbeat=60)
_TRIES = 2  # ends in a row; the first may be the end of a zygote that worked


@dataclass(frozen=True)
class ZygoteKind:
    """What a zygote forks. ``program``: the command of the same process. ``zygote``: the command of the zygote.

    ``ready_within``: seconds to wait for the zygote before ``program`` starts instead. To wait for imports that already
    run is faster than to run them twice.
    """

    name: str
    program: tuple[str, ...]
    zygote: tuple[str, ...]
    ready_within: float


FUSE_SERVERS = ZygoteKind(
    "fuse zygote",
    (sys.executable, "-m", "stoker_sidecar.fuse.main"),
    (sys.executable, "-m", "stoker_sidecar.fuse.main", "--zygote"),
    ready_within=10.0,  # a pod waits for its mount
)
FETCHERS = ZygoteKind(
    "fetcher zygote",
    (sys.executable, "-m", "stoker_sidecar.fetcher.main"),
    (sys.executable, "-m", "stoker_sidecar.fetcher.zygote"),
    # On a busy machine, a second of CPU takes 20 s. A fetcher and workers without a zygote take 50 MB more.
    ready_within=30.0,
)


class Zygote:
    """A zygote of one kind, which forks processes in milliseconds. It starts again when it ends.

    ``begin`` it, wait ``until_ready``, then ``spawn``.
    """

    def __init__(self, kind: ZygoteKind, reaper: Reaper, uid: int | None) -> None:
        self._kind = kind
        self._uid = uid
        self._orders, self._zygote_end = _socket_pair()
        self._is_ready = False
        self._in_vain = False  # the last wait for it ended without one
        self._news = asyncio.Event()
        self.child = Child(kind.name, reaper, self._prepare, ZYGOTE, spawn=self._start, on_ready=self._ready)

    @property
    def ready(self) -> bool:
        """True if it takes orders."""
        return self._is_ready and self.child.pid is not None

    def start(self, arguments: list[str], uid: int | None, fds: dict[str, int]) -> Start:
        """Describe a process of the kind for ``spawn``."""
        return Start([*self._kind.program, *arguments], uid, fds)

    async def until_ready(self) -> None:
        """Wait until the zygote takes orders. Return also if it fails to start, or after ``ready_within``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._kind.ready_within):
                while not (self.ready or self.child.history.in_a_row >= _TRIES):
                    self._news.clear()
                    await self._news.wait()
        self._in_vain = not self.ready

    def spawn(self, start: Start) -> int:
        """Start a process, without the zygote if ``until_ready`` found none; return the pid of the keeper's new child.

        Raises OSError and subprocess.SubprocessError. OSError if the zygote has just ended: then call ``until_ready``
        again.
        """
        if not self.ready:
            if self._in_vain:
                return execute(start)
            raise OSError(f"the {self._kind.name} has just ended")
        assert self.child.pid is not None, "a ready zygote runs"
        try:
            arguments = start.command[len(self._kind.program) :]
            return order(self._orders, self.child.pid, _PATIENCE, arguments, start.fds)
        except OSError as error:
            _log.warning("the %s did not fork and is replaced: %s", self._kind.name, error)
            self._is_ready = False
            self.child.kill()
            raise

    def begin(self) -> None:
        """Start it. ``spawn`` may be called after ``until_ready``."""
        self.child.begin()

    async def stop(self) -> None:
        """End it. The processes that it forked go on."""
        await self.child.stop(grace=0)
        self._close()

    def _prepare(self) -> Start:
        self._is_ready = False
        self._news.set()  # it may have ended too often
        self._close()
        self._orders, self._zygote_end = _socket_pair()
        return Start(self._kind.zygote, self._uid, {"--orders-fd": self._zygote_end.fileno()})

    def _start(self, start: Start) -> int:
        with self._zygote_end:  # else the keeper would not see the zygote's end close
            return execute(start)

    def _ready(self) -> None:
        self._is_ready = True
        self._news.set()

    def _close(self) -> None:
        self._orders.close()
        self._zygote_end.close()


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
