"""The keeper's side of the zygotes: processes that have imported what a kind of process needs, and fork it at an order.

There are two of each kind: either forks what is asked for, and the other one when that has died, since imports take a
second of CPU. What runs in a zygote is wire/zygote_orders.py; its programs are fuse/zygote.py and fetcher/zygote.py.
(The fetcher has a third kind for its workers, without the keeper: worker/zygote.py.)
"""

import asyncio
import logging
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from stoker_sidecar.keeper.children import Child, Reaper
from stoker_sidecar.keeper.watchdog import RestartPolicy
from stoker_sidecar.linux.spawn import Spawn, Start, execute
from stoker_sidecar.wire.zygote_orders import order

_log = logging.getLogger("stoker.keeper")
# A fork takes 10 ms, or 0.6 s when the disk is busy and the page cache empty; beyond this the zygote hangs. The keeper
# waits meanwhile.
_PATIENCE = 2.0
# Comes back at once, and waits for orders in silence; its imports take a second of CPU.
ZYGOTE = RestartPolicy(stable_after=0.05, longest_delay=5.0, at_once=20, from_ready=True, first_heartbeat=60)
_TRIES = 2  # ends in a row, of which the first may be that of one that worked


@dataclass(frozen=True)
class ZygoteKind:
    """What a zygote forks. ``program``: how the same is started without it; ``zygote``: how the zygote is started.

    ``ready_within``: seconds that are waited for one. To wait for imports that run already is faster than to run the
    same once more beside them; beyond, something is wrong.
    """

    name: str
    program: tuple[str, ...]
    zygote: tuple[str, ...]
    ready_within: float


FUSE_SERVERS = ZygoteKind(
    "fuse zygote",
    (sys.executable, "-m", "stoker_sidecar.fuse.main"),
    (sys.executable, "-m", "stoker_sidecar.fuse.zygote"),
    ready_within=10.0,  # a pod waits for its mount
)
FETCHERS = ZygoteKind(
    "fetcher zygote",
    (sys.executable, "-m", "stoker_sidecar.fetcher.main"),
    (sys.executable, "-m", "stoker_sidecar.fetcher.zygote"),
    # Where so much runs that a second of CPU takes 20: fetcher and workers that share no memory with their zygotes take
    # 50 MB more for as long as they live.
    ready_within=30.0,
)


class Zygote:
    """One zygote, as the keeper sees it: ``begin`` and ``stop`` its ``child``, ``fork`` while it is ``ready``.

    ``spawn`` starts it when ``until`` has returned; ``on_ready`` is called when it can be asked.
    """

    def __init__(
        self,
        name: str,
        kind: ZygoteKind,
        reaper: Reaper,
        uid: int | None,
        spawn: Spawn,
        until: Callable[["Zygote"], Awaitable[None]],
        on_ready: Callable[["Zygote"], None],
    ) -> None:
        self.is_importing = False
        self._kind = kind
        self._uid = uid
        self._spawn = spawn
        self._orders, self._zygote_end = _socket_pair()
        self._is_ready = False
        self._on_ready = on_ready
        self.child = Child(
            name,
            reaper,
            self._prepare,
            ZYGOTE,
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
        self._orders, self._zygote_end = _socket_pair()
        return Start(self._kind.zygote, self._uid, {"--orders-fd": self._zygote_end.fileno()})

    def _start(self, start: Start) -> int:
        with self._zygote_end:  # it has its own copy then, and its end would never be seen
            return self._spawn(start)

    def _ready(self) -> None:
        self._is_ready = True
        self._on_ready(self)

    def fork(self, start: Start) -> int:
        """Start one of its kind; returns its pid, which is a child of the keeper. Raises OSError."""
        return self._order(start.command[len(self._kind.program) :], start, zygote=False)

    def fork_zygote(self, start: Start) -> int:
        """Start another zygote of the same kind; returns its pid. Raises OSError."""
        return self._order(start.command[len(self._kind.zygote) :], start, zygote=True)

    def _order(self, arguments: Sequence[str], start: Start, *, zygote: bool) -> int:
        if self.child.pid is None:
            raise OSError("it has just ended")
        return order(self._orders, self.child.pid, _PATIENCE, arguments, start.fds, zygote=zygote)

    def replace(self) -> None:
        """End it, since it did not do what it should; the next one follows."""
        self._is_ready = False
        self.child.kill()

    def close(self) -> None:
        """Close both ends of the orders."""
        self._orders.close()
        self._zygote_end.close()


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class ZygotePair:
    """Two zygotes of one kind, which start processes in milliseconds while either lives.

    ``until_ready``, then ``spawn``.
    """

    def __init__(self, kind: ZygoteKind, reaper: Reaper, uid: int | None) -> None:
        self._kind = kind
        self._importing = asyncio.Lock()
        self._news = asyncio.Event()
        self._in_vain = False  # it was waited for one
        self._pair = [
            Zygote(name, kind, reaper, uid, self._spawn_zygote, self._until_it_may_import, self._is_ready)
            for name in (kind.name, f"{kind.name} 2")
        ]

    @property
    def children(self) -> list[Child]:
        """The processes."""
        return [zygote.child for zygote in self._pair]

    @property
    def ready(self) -> list[Zygote]:
        """Those that can be asked now."""
        return [zygote for zygote in self._pair if zygote.ready]

    @property
    def _hopeless(self) -> bool:
        return any(child.history.in_a_row >= _TRIES for child in self.children)

    def start(self, arguments: list[str], uid: int | None, fds: dict[str, int]) -> Start:
        """Describe a process of the kind, such as ``spawn`` can have forked."""
        return Start([*self._kind.program, *arguments], uid, fds)

    async def until_ready(self) -> None:
        """Return when processes can be forked, or when they had better start without, as that fails or takes long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._kind.ready_within):
                while not (self.ready or self._hopeless):
                    self._news.clear()
                    await self._news.wait()
        self._in_vain = not self.ready

    def spawn(self, start: Start) -> int:
        """Start a process; returns its pid, which is a child of the keeper.

        Raises OSError and subprocess.SubprocessError. When the zygotes that were ready have just died, that is an
        OSError: ``until_ready`` waits for the next.
        """
        if self._in_vain and not self.ready:
            return execute(start)
        pid = self._first(lambda zygote: zygote.fork(start))
        if pid is None:
            raise OSError(f"each {self._kind.name} ended just now")
        return pid

    def _spawn_zygote(self, start: Start) -> int:
        pid = self._first(lambda zygote: zygote.fork_zygote(start))
        return execute(start) if pid is None else pid

    def _first(self, fork: Callable[[Zygote], int]) -> int | None:
        for zygote in self.ready:
            try:
                return fork(zygote)
            except OSError as error:
                _log.warning("the %s is replaced, which did not fork: %s", zygote.child.name, error)
                zygote.replace()
        return None

    async def _until_it_may_import(self, zygote: Zygote) -> None:
        """Make one that starts at the same time as the other wait, to be forked from it: imported once is enough."""
        self._has_imported(zygote)  # or ended before
        self._news.set()
        await self._importing.acquire()
        zygote.is_importing = True

    def _has_imported(self, zygote: Zygote) -> None:
        if zygote.is_importing:
            zygote.is_importing = False
            self._importing.release()

    def _is_ready(self, zygote: Zygote) -> None:
        self._has_imported(zygote)
        self._news.set()

    def begin(self) -> None:
        """Start both; processes may be asked for at once."""
        for child in self.children:
            child.begin()

    async def stop(self) -> None:
        """End both; the processes that they started go on."""
        await asyncio.gather(*(child.stop(grace=0) for child in self.children))
        for zygote in self._pair:
            zygote.close()
