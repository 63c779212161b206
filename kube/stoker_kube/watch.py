"""A watch that never ends: list, watch, resume, and list again when the server has forgotten where we were."""

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
    """What happened to an object; SYNCED (with no object) follows every full list."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    SYNCED = "SYNCED"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """What a watch tells.

    ``object`` is whole, except for a DELETED that was missed: then it is the metadata seen last.
    """

    type: EventType
    object: Object


_Key = tuple[str, str]  # namespace and name
_SYNCED = WatchEvent(EventType.SYNCED, {})


def _ignore() -> None:
    """Do nothing: nobody asked to be told."""


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
    """Tell of every object now, SYNCED, then every change, over any outage.

    Changes may be merged, but the last state is always told.

    Errors of ``give_up_on`` are raised (a command line wants to know of Forbidden); all others are waited out with
    jitter. ``on_new_attempt`` is called when one of these was waited out: the last time when the server answers again.
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
            _log.warning("Watching %s is interrupted and will be resumed: %s", kind.plural, error.message)
            await sleep(wait.next(error.retry_after if isinstance(error, Unavailable) else 0.0))
            on_new_attempt()
        else:
            await sleep(wait.next() if state.idle_round else 0.0)


class _Known(NamedTuple):
    """What is kept of an object, of which there may be 100,000: enough to tell of a deletion that was missed."""

    uid: str
    version: str

    def metadata(self, key: _Key) -> Object:
        namespace, name = key
        found = {"name": name, "namespace": namespace, "uid": self.uid, "resourceVersion": self.version}
        return {field: value for field, value in found.items() if value}


class _Watcher:
    """Where the watch stands: which objects were told to the reader, and the resourceVersion to go on from."""

    def __init__(self, client: Kube, kind: Kind, scope: tuple[str, str, str]) -> None:
        self._client = client
        self._kind = kind
        self._scope = scope
        self._position = ""
        self._known: dict[_Key, _Known] = {}
        self.idle_round = False  # the last connection ended without a word, so the next one should wait

    def forget_position(self) -> None:
        self._position = ""

    async def round(self) -> AsyncIterator[WatchEvent]:
        """List if needed, then one connection until the server ends it."""
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
                yield self._told(EventType(raw["type"]), raw["object"])

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
            yield self._told(EventType.DELETED, {"metadata": self._known[key].metadata(key)})
        self._position = position
        yield _SYNCED

    def _listed(self, item: Object) -> WatchEvent | None:
        known = self._known.get(_key(item))
        if known is None:
            return self._told(EventType.ADDED, item)
        if known.version == item["metadata"]["resourceVersion"]:
            return None
        return self._told(EventType.MODIFIED, item)

    def _told(self, event: EventType, item: Object) -> WatchEvent:
        if event is EventType.DELETED:
            self._known.pop(_key(item), None)
        else:
            metadata = item["metadata"]
            self._known[_key(item)] = _Known(metadata.get("uid", ""), metadata["resourceVersion"])
        return WatchEvent(event, item)


def _key(item: Object) -> _Key:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]
