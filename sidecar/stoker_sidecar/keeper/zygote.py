"""The keeper's side of one nursery, a process that has imported what a kind of process needs, and forks it at an order."""

import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from stoker_sidecar.keeper.children import Child, Reaper
from stoker_sidecar.keeper.restarts import Policy
from stoker_sidecar.linux.spawn import Spawn, Start
from stoker_sidecar.wire.zygote_orders import order

# A fork takes 10 ms, or 0.6 s when the disk is busy and the page cache empty; beyond this the nursery hangs. The keeper waits meanwhile.
_PATIENCE = 2.0
# Comes back at once, and waits for orders in silence; its imports take a second of CPU.
_POLICY = Policy(stable_after=0.05, longest_delay=5.0, at_once=20, from_ready=True, first_beat=60)


@dataclass(frozen=True)
class Kind:
    """What a nursery forks. ``program``: how the same is started without it; ``nursery``: how the nursery is."""

    name: str
    program: tuple[str, ...]
    nursery: tuple[str, ...]


SERVERS = Kind(
    "nursery",
    (sys.executable, "-m", "stoker_sidecar.fuse.main"),
    (sys.executable, "-m", "stoker_sidecar.fuse.zygote"),
)
FETCHERS = Kind(
    "fetcher nursery",
    (sys.executable, "-m", "stoker_sidecar.fetcher.main"),
    (sys.executable, "-m", "stoker_sidecar.fetcher.zygote"),
)


class Nursery:
    """``begin`` and ``stop`` its ``child``. ``spawn`` starts it when ``until`` has returned; ``on_ready``: it can be asked now."""

    def __init__(
        self,
        name: str,
        kind: Kind,
        reaper: Reaper,
        uid: int | None,
        spawn: Spawn,
        until: Callable[["Nursery"], Awaitable[None]],
        on_ready: Callable[["Nursery"], None],
    ) -> None:
        self.is_importing = False
        self._kind = kind
        self._uid = uid
        self._spawn = spawn
        self._orders, self._theirs = _orders()
        self._is_ready = False
        self._on_ready = on_ready
        self.child = Child(
            name,
            reaper,
            self._prepare,
            _POLICY,
            spawn=self._start,
            until=lambda: until(self),
            on_ready=self._ready,
        )

    @property
    def ready(self) -> bool:
        """Whether it can be asked."""
        return self._is_ready and self.child.pid is not None

    def _prepare(self) -> Start:
        self._is_ready = False
        self.close()
        self._orders, self._theirs = _orders()
        return Start(self._kind.nursery, self._uid, {"--orders-fd": self._theirs.fileno()})

    def _start(self, start: Start) -> int:
        with self._theirs:  # it has its own copy then, and its end would never be seen
            return self._spawn(start)

    def _ready(self) -> None:
        self._is_ready = True
        self._on_ready(self)

    def fork(self, start: Start) -> int:
        """Start one of its kind; its pid, which is a child of the keeper. Raises OSError."""
        return order(self._orders, start.command[len(self._kind.program) :], start.fds)

    def fork_nursery(self, start: Start) -> int:
        """Start another nursery of the same kind. Raises OSError."""
        return order(self._orders, start.command[len(self._kind.nursery) :], start.fds, nursery=True)

    def replace(self) -> None:
        """It did not do what it should: end it; the next one follows."""
        self._is_ready = False
        self.child.kill()

    def close(self) -> None:
        """Both ends of the orders."""
        self._orders.close()
        self._theirs.close()


def _orders() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(_PATIENCE)
    return ours, theirs
