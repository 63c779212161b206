"""A local mirror of the objects of one kind, reduced to the fields in use."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from stoker_kube.api import Object
from stoker_kube.watch import EventType, WatchEvent

T = TypeVar("T")
_log = logging.getLogger(__name__)


def key_of(item: Object) -> str:
    """Return ``namespace/name``, or ``name`` for cluster-scoped kinds."""
    namespace = item["metadata"].get("namespace", "")
    return f"{namespace}/{item['metadata']['name']}" if namespace else str(item["metadata"]["name"])


def _ignore(key: str, old: object, new: object) -> None:
    """Do nothing."""


class Informer(Generic[T]):
    """A mirror of a watch that stores ``transform(object)`` for every object. None means absent.

    ``on_change(key, old, new)`` is called after a view changed. If a transform raises, the error is logged and the
    object is absent.
    """

    def __init__(
        self,
        events: AsyncIterator[WatchEvent],
        transform: Callable[[Object], T | None],
        on_change: Callable[[str, T | None, T | None], None] = _ignore,
        name: str = "",
    ) -> None:
        """Prepare to follow ``events``. ``name``: for metrics and logs."""
        self.name = name
        self._events = events
        self._transform = transform
        self._on_change = on_change
        self._mirror: dict[str, T] = {}
        self._synced = asyncio.Event()

    @property
    def mirror(self) -> Mapping[str, T]:
        """The current views by key (live, read-only)."""
        return MappingProxyType(self._mirror)

    @property
    def synced(self) -> bool:
        """True after the first complete list."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait for the first complete list."""
        await self._synced.wait()

    async def run(self) -> None:
        """Follow the watch until cancelled."""
        async for event in self._events:
            if event.type is EventType.SYNCED:
                self._synced.set()
                continue
            self._take(event)
            await asyncio.sleep(0)  # a page of a list arrives without a wait between its objects

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
        except Exception as error:  # noqa: BLE001 -- one bad object must not end the watch
            _log.error("Cannot parse %s %s, so it is ignored: %r", item.get("kind", "Object"), key, error)
            return None
