"""Kubernetes events, written in the background. Repeated events increase a count."""

import asyncio
import hashlib
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, Self

from stoker_api.backoff import Backoff
from stoker_api.times import format_time
from stoker_kube.api import Kube, Object
from stoker_kube.errors import AlreadyExists, KubeError, NotFound
from stoker_kube.resources import EVENTS

_log = logging.getLogger(__name__)
EventLevel = Literal["Normal", "Warning"]
MESSAGE_LIMIT = 1024  # bytes, the limit of the API server
CLUSTER_NAMESPACE = "default"  # for events about cluster-scoped objects; required by the API server
PENDING_LIMIT = 1000  # events; bounds memory during an outage of the API server
SECONDS = 5.0  # per attempt
AT_ONCE = 16  # objects with an event in progress
AT_ONCE_EACH = 4  # of these, per namespace
ATTEMPTS = 5  # per event, over about 15 seconds


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object of an event."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""

    @classmethod
    def of(cls, item: Object) -> Self:
        """Refer to an object with its apiVersion and kind."""
        meta = item["metadata"]
        names = (meta["name"], meta.get("namespace", ""), meta.get("uid", ""))
        return cls(item["apiVersion"], item["kind"], *names)


@dataclass(frozen=True, slots=True)
class _Key:
    ref: ObjectRef
    type: EventLevel
    reason: str
    message: str

    @property
    def namespace(self) -> str:
        """The namespace of the event."""
        return self.ref.namespace or CLUSTER_NAMESPACE

    @property
    def name(self) -> str:
        """The object name. It depends only on the event, so that repeats from all replicas share one object."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:16]
        return f"{self.ref.name[:200]}.{digest}"


class EventPacer(Protocol):
    """Limits the rate of events."""

    def wait(self) -> float:
        """Return 0.0 and count an event if it may be written now, else the seconds until the next call."""


class EventRecorder:
    """Writes Kubernetes events in the background: ``event`` queues, ``run`` writes.

    ``component``: the source of the events. ``pace``: the rate limit, None for no limit.
    """

    def __init__(
        self,
        client: Kube,
        component: str,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        pace: EventPacer | None = None,
    ) -> None:
        self._client = client
        self._pace = pace
        self._component = component
        self._clock = clock
        self._sleep = sleep
        self._pending: OrderedDict[_Key, int] = OrderedDict()  # with the count since the last write
        self._waiting: dict[str, dict[_Key, None]] = {}  # the same by namespace
        self._dropped = 0
        self._turns = 0
        self._served: dict[str, int] = {}  # by namespace, the turn of its last event
        self._wake = asyncio.Event()
        self._busy: set[ObjectRef] = set()  # objects with an event in progress

    def event(self, ref: ObjectRef, type: EventLevel, reason: str, message: str) -> None:
        """Queue one event. Does not wait and does not raise."""
        text = message.encode(errors="replace")[:MESSAGE_LIMIT].decode(errors="ignore")
        key = _Key(ref, type, str(reason), text)
        self._pending[key] = self._pending.get(key, 0) + 1
        self._waiting.setdefault(ref.namespace, {})[key] = None
        if len(self._pending) > PENDING_LIMIT:
            # Drop the oldest event of the namespace with the most events, so that a flood affects only its namespace.
            most = max(self._waiting.values(), key=len)
            dropped = next(iter(most))
            self._take(dropped)
            if self._dropped % PENDING_LIMIT == 0:
                last = (dropped.reason, dropped.message)
                _log.warning("Too many events wait for the API server: dropped %s: %s, and later ones", *last)
            self._dropped += 1
        self._wake.set()

    @property
    def idle(self) -> bool:
        """True if all events are written."""
        return not self._pending and not self._busy

    async def run(self) -> None:
        """Write until cancelled: one event per object and a few objects per namespace at a time.

        Slow or failing writes for an object or a namespace do not delay the rest.
        """
        async with asyncio.TaskGroup() as writers:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while (key := self._next()) is not None:
                    if self._pace is not None and (seconds := self._pace.wait()):
                        await self._sleep(seconds)
                        continue  # its count may increase until then
                    self._note_turn(key.ref.namespace)
                    self._busy.add(key.ref)
                    writers.create_task(self._write_one(key, self._take(key)))

    def _take(self, key: _Key) -> int:
        """Remove a queued event and return its count."""
        of_namespace = self._waiting[key.ref.namespace]
        del of_namespace[key]
        if not of_namespace:
            del self._waiting[key.ref.namespace]
        return self._pending.pop(key)

    def _note_turn(self, namespace: str) -> None:
        self._turns += 1
        self._served.pop(namespace, None)
        self._served[namespace] = self._turns
        while len(self._served) > PENDING_LIMIT:
            del self._served[next(iter(self._served))]

    def _next(self) -> _Key | None:
        if len(self._busy) >= AT_ONCE:
            return None
        under_way = Counter(ref.namespace for ref in self._busy)
        open_ones = [namespace for namespace in self._waiting if under_way[namespace] < AT_ONCE_EACH]
        # The least recently served namespace first, so that a thousand events of one namespace do not delay the rest.
        for namespace in sorted(open_ones, key=lambda namespace: self._served.get(namespace, 0)):
            key = next((key for key in self._waiting[namespace] if key.ref not in self._busy), None)
            if key is not None:
                return key
        return None

    async def _write_one(self, key: _Key, count: int) -> None:
        try:
            await self._write(key, count)
        finally:
            self._busy.discard(key.ref)
            self._wake.set()

    async def _write(self, key: _Key, count: int) -> None:
        backoff = Backoff(first=1.0)
        for _ in range(ATTEMPTS):
            try:
                async with asyncio.timeout(SECONDS):
                    return await self._create_or_count(key, count)
            except TimeoutError:
                await self._sleep(backoff.next())
            except KubeError as error:
                if not error.temporary:
                    return _log.warning("Event %s of %s was refused: %s", key.reason, key.ref.name, error.message)
                await self._sleep(backoff.next())
        return _log.warning("Event %s of %s could not be written: %s", key.reason, key.ref.name, key.message)

    async def _create_or_count(self, key: _Key, count: int) -> None:
        namespace = key.namespace
        now = format_time(self._clock().timestamp())
        try:
            await self._client.create(EVENTS, self._body(key, count, now), namespace)
        except AlreadyExists:
            try:
                seen = int((await self._client.get(EVENTS, key.name, namespace)).get("count") or 0)
                body = {"count": seen + count, "lastTimestamp": now}
                await self._client.patch(EVENTS, key.name, body, namespace)
            except NotFound:  # it has just expired
                await self._client.create(EVENTS, self._body(key, count, now), namespace)

    def _body(self, key: _Key, count: int, now: str) -> Object:
        ref = key.ref
        involved = {"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name}
        involved |= {"namespace": ref.namespace} if ref.namespace else {}
        involved |= {"uid": ref.uid} if ref.uid else {}
        return {
            "metadata": {"name": key.name, "namespace": key.namespace},
            "involvedObject": involved,
            "type": key.type,
            "reason": key.reason,
            "message": key.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": count,
        }
