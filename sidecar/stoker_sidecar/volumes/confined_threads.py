"""Threads of the agent, which is root, that read another user's folders and may open nothing else (ADR 37)."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from stoker_sidecar.linux.confinement import Confinement
from stoker_sidecar.linux.landlock import TcpAccess, abi, shortcoming

P = ParamSpec("P")
T = TypeVar("T")

_NO_TCP = TcpAccess.BIND | TcpAccess.CONNECT
_THREADS = 4  # so that a disk which hangs does not hold up the look at others


class ConfinedThreads:
    """Threads of a process that may do more: what runs in them reads some folders, and no other files.

    Where the kernel has no Landlock it runs as all else does.
    """

    def __init__(self, folders: Iterable[str]) -> None:
        self._folders = tuple(folders)
        self._works = not shortcoming(abi())
        self._making = threading.Lock()
        self._current: tuple[Confinement, ThreadPoolExecutor] | None = None

    def run(self, work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Return the result of ``work``, done in such a thread. Blocks. Raises what it raises."""
        if not self._works:
            return work(*arguments, **options)
        return self._pool().submit(work, *arguments, **options).result()

    def _pool(self) -> ThreadPoolExecutor:
        with self._making:
            if self._current is None or self._current[0].is_outdated():
                if self._current is not None:
                    self._current[1].shutdown(wait=False)
                confinement = Confinement(readable=self._folders)
                confinement.take_note()
                pool = ThreadPoolExecutor(_THREADS, "confined", partial(confinement.begin, no_tcp=_NO_TCP))
                self._current = confinement, pool
            return self._current[1]
