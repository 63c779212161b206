"""Two nurseries of one kind: either forks what is asked for, and the other one when that has died; imports take a second of CPU."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from stoker_sidecar.keeper.children import Child, Reaper
from stoker_sidecar.keeper.zygote import Kind, Nursery
from stoker_sidecar.linux.spawn import Start, execute

_log = logging.getLogger("stoker.keeper")
# To wait for imports that run already is faster than to run the same once more beside them. Beyond, something is wrong.
_READY_WITHIN = 10.0
_TRIES = 2  # ends in a row, of which the first may be that of one that worked


class Nurseries:
    """Starts processes of one kind (``until_ready``, then ``spawn``) in milliseconds while one of the two lives."""

    def __init__(self, kind: Kind, reaper: Reaper, uid: int | None) -> None:
        self._kind = kind
        self._importing = asyncio.Lock()
        self._news = asyncio.Event()
        self._in_vain = False  # it was waited for one
        self._pair = [
            Nursery(name, kind, reaper, uid, self._spawn_nursery, self._turn_of, self._is_ready)
            for name in (kind.name, f"{kind.name} 2")
        ]

    @property
    def children(self) -> list[Child]:
        """The processes."""
        return [nursery.child for nursery in self._pair]

    @property
    def ready(self) -> list[Nursery]:
        """Those that can be asked now."""
        return [nursery for nursery in self._pair if nursery.ready]

    @property
    def _hopeless(self) -> bool:
        return any(child.history.in_a_row >= _TRIES for child in self.children)

    def start(self, arguments: list[str], uid: int | None, fds: dict[str, int]) -> Start:
        """One that ``spawn`` can have forked."""
        return Start([*self._kind.program, *arguments], uid, fds)

    async def until_ready(self) -> None:
        """Return when processes can be forked, or when it takes so long, or fails, that they had better start without."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_READY_WITHIN):
                while not (self.ready or self._hopeless):
                    self._news.clear()
                    await self._news.wait()
        self._in_vain = not self.ready

    def spawn(self, start: Start) -> int:
        """Start one; its pid, which is a child of the keeper. Raises OSError and subprocess.SubprocessError.

        When the nurseries that were ready have just died, that is an OSError: ``until_ready`` waits for the next.
        """
        if self._in_vain and not self.ready:
            return execute(start)
        pid = self._first(lambda nursery: nursery.fork(start))
        if pid is None:
            raise OSError(f"each {self._kind.name} ended just now")
        return pid

    def _spawn_nursery(self, start: Start) -> int:
        pid = self._first(lambda nursery: nursery.fork_nursery(start))
        return execute(start) if pid is None else pid

    def _first(self, fork: Callable[[Nursery], int]) -> int | None:
        for nursery in self.ready:
            try:
                return fork(nursery)
            except OSError as error:
                _log.warning("the %s is replaced, which did not fork: %s", nursery.child.name, error)
                nursery.replace()
        return None

    async def _turn_of(self, nursery: Nursery) -> None:
        """One that starts at the same time as the other waits, to be forked from it: imported once is enough."""
        self._has_imported(nursery)  # or ended before
        self._news.set()
        await self._importing.acquire()
        nursery.is_importing = True

    def _has_imported(self, nursery: Nursery) -> None:
        if nursery.is_importing:
            nursery.is_importing = False
            self._importing.release()

    def _is_ready(self, nursery: Nursery) -> None:
        self._has_imported(nursery)
        self._news.set()

    def begin(self) -> None:
        """Start both; processes may be asked for at once."""
        for child in self.children:
            child.begin()

    async def stop(self) -> None:
        """End both; the processes that they started go on."""
        await asyncio.gather(*(child.stop(grace=0) for child in self.children))
        for nursery in self._pair:
            nursery.close()
