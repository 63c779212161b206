"""A mirror of the objects of one kind, as views that the program needs and no more."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import MappingProxyType
from typing import Generic, TypeVar

from stoker_kube.api import Object
from stoker_kube.watch import EventType, WatchEvent

T = TypeVar("T")
Turn = Callable[[], AbstractAsyncContextManager[None]]
_log = logging.getLogger(__name__)


def key_of(item: Object) -> str:
    """Return ``namespace/name``, or ``name`` for cluster-scoped kinds."""
    namespace = item["metadata"].get("namespace", "")
    return f"{namespace}/{item['metadata']['name']}" if namespace else str(item["metadata"]["name"])


def _ignore(key: str, old: object, new: object) -> None:
    """Do nothing: nobody asked to be told."""


@asynccontextmanager
async def _turn() -> AsyncIterator[None]:
    """Let others have theirs after each event: a page of a list comes without a wait in between."""
    yield
    await asyncio.sleep(0)


class Informer(Generic[T]):
    """A mirror of a watch: ``transform(object)`` for every object; one whose view is None is treated as absent.

    ``on_change(key, old, new)`` is called after the mirror changed, only when the view did. A transform that raises
    makes that one object absent, and is logged. Each event is taken within a ``turn()``, in which nothing is waited
    for.
    """

    def __init__(
        self,
        events: AsyncIterator[WatchEvent],
        transform: Callable[[Object], T | None],
        on_change: Callable[[str, T | None, T | None], None] = _ignore,
        turn: Turn = _turn,
        name: str = "",
    ) -> None:
        """Follow ``events`` once it runs; ``name``: of what it mirrors."""
        self.name = name
        self._events = events
        self._transform = transform
        self._on_change = on_change
        self._turn = turn
        self._mirror: dict[str, T] = {}
        self._synced = asyncio.Event()

    @property
    def mirror(self) -> Mapping[str, T]:
        """The views by key, as they are now (live, read-only)."""
        return MappingProxyType(self._mirror)

    @property
    def synced(self) -> bool:
        """Whether the first full list has been seen."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the first full list has been seen."""
        await self._synced.wait()

    async def run(self) -> None:
        """Follow the watch until cancelled."""
        async for event in self._events:
            if event.type is EventType.SYNCED:
                self._synced.set()
                continue
            async with self._turn():
                self._take(event)

    def _take(self, event: WatchEvent) -> None:
        key = key_of(event.object)
        old = self._mirror.get(key)
        new = None if event.type is EventType.DELETED else self._view(key, event.object)
        if new is None:
            self._mirror.pop(key, None)
        else:
            self._mirror[key] = new
        if old != new:
            self._on_change(key, old, new)

    def _view(self, key: str, item: Object) -> T | None:
        try:
            return self._transform(item)
        except Exception as error:  # noqa: BLE001 -- the boundary of an object: one must not end the watch of all
            _log.error("%s %s cannot be read and is left out: %r", item.get("kind", "Object"), key, error)
            return None
