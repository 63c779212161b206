"""A watch that reconnects: it lists, watches, resumes, and lists again after Expired."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from stoker_api.backoff import Backoff
from stoker_kube.api import Kube, Object
from stoker_kube.errors import Expired, KubeError, Unavailable, from_status
from stoker_kube.resources import Kind

_log = logging.getLogger(__name__)


class EventType(StrEnum):
    """The type of an event. SYNCED (without an object) follows every complete list."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    SYNCED = "SYNCED"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """An event of a watch.

    ``object`` is complete, except for a DELETED event found by a list. It then has only the last known metadata.
    """

    type: EventType
    object: Object


_Key = tuple[str, str]  # namespace and name
_SYNCED = WatchEvent(EventType.SYNCED, {})


def _ignore() -> None:
    """Do nothing."""


async def watch(
    client: Kube,
    kind: Kind,
    *,
    namespace: str = "",
    label_selector: str = "",
    field_selector: str = "",
    give_up_on: tuple[type[KubeError], ...] = (),
    backoff: Backoff | None = None,
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    on_new_attempt: Callable[[], None] = _ignore,
) -> AsyncGenerator[WatchEvent, None]:
    """Yield every object, SYNCED, and then every change. Continues after outages.

    Changes may be merged, but the last state is always yielded. Errors in ``give_up_on`` are raised. After all other
    errors, the watch waits with jitter, calls ``on_new_attempt`` and retries.
    """
    state = _Watcher(client, kind, (namespace, label_selector, field_selector))
    wait = backoff or Backoff()
    while True:
        try:
            async for event in state.round():
                wait.reset()
                yield event
        except Expired:
            state.forget_position()
        except give_up_on:
            raise
        except KubeError as error:
            _log.warning("The watch of %s is interrupted and resumes soon: %s", kind.plural, error.message)
            await sleep(wait.next(error.retry_after if isinstance(error, Unavailable) else 0.0))
            on_new_attempt()
        else:
            await sleep(wait.next() if state.idle_round else 0.0)


class _Known(NamedTuple):
    """The stored fields of an object, enough to report a missed deletion. There may be 100,000 objects."""

    uid: str
    version: str

    def metadata(self, key: _Key) -> Object:
        namespace, name = key
        fields = {"name": name, "namespace": namespace, "uid": self.uid, "resourceVersion": self.version}
        return {field: value for field, value in fields.items() if value}


class _Watcher:
    """The state of a watch: the yielded objects, and the resourceVersion to resume from."""

    def __init__(self, client: Kube, kind: Kind, scope: tuple[str, str, str]) -> None:
        self._client = client
        self._kind = kind
        self._scope = scope
        self._position = ""
        self._known: dict[_Key, _Known] = {}
        self.idle_round = False  # the last connection had no events, so the next one waits

    def forget_position(self) -> None:
        self._position = ""

    async def round(self) -> AsyncIterator[WatchEvent]:
        """List if needed, then read one connection until the server ends it."""
        if not self._position:
            async for event in self._list():
                yield event
        self.idle_round = True
        async for raw in self._client.stream(self._kind, self._position, *self._scope):
            self.idle_round = False
            if raw["type"] == "ERROR":
                raise from_status(int(raw["object"].get("code") or 500), raw["object"])
            self._position = raw["object"]["metadata"]["resourceVersion"]
            if raw["type"] != "BOOKMARK":
                yield self._record(EventType(raw["type"]), raw["object"])

    async def _list(self) -> AsyncIterator[WatchEvent]:
        seen: set[_Key] = set()
        position = ""
        async for page in self._client.pages(self._kind, *self._scope):
            position = page.resource_version
            for item in page.items:
                seen.add(_key(item))
                if (event := self._listed(item)) is not None:
                    yield event
        for key in self._known.keys() - seen:
            yield self._record(EventType.DELETED, {"metadata": self._known[key].metadata(key)})
        self._position = position
        yield _SYNCED

    def _listed(self, item: Object) -> WatchEvent | None:
        stored = self._known.get(_key(item))
        if stored is None:
            return self._record(EventType.ADDED, item)
        if stored.version == item["metadata"]["resourceVersion"]:
            return None
        return self._record(EventType.MODIFIED, item)

    def _record(self, event: EventType, item: Object) -> WatchEvent:
        if event is EventType.DELETED:
            self._known.pop(_key(item), None)
        else:
            metadata = item["metadata"]
            self._known[_key(item)] = _Known(metadata.get("uid", ""), metadata["resourceVersion"])
        return WatchEvent(event, item)


def _key(item: Object) -> _Key:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]
