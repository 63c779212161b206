"""Kubernetes events: told without waiting, repeated ones counted instead of written anew."""

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
MESSAGE_LIMIT = 1024  # bytes; the API server refuses longer ones
CLUSTER_NAMESPACE = "default"  # where events about cluster-scoped objects live, by the API server's own rule
PENDING_LIMIT = 1000  # events; beyond it the oldest are dropped: an API server that is down must not cost memory
SECONDS = 5.0  # for one attempt
AT_ONCE = 16  # objects of which events are being written
AT_ONCE_EACH = 4  # of them in one namespace
ATTEMPTS = 5  # of one event, over about 15 seconds of outage: an event is not worth more


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """What an event is about."""

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
        """Where the event lives."""
        return self.ref.namespace or CLUSTER_NAMESPACE

    @property
    def name(self) -> str:
        """The same for the same event, whichever replica tells it: so repeats meet in one object."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:16]
        return f"{self.ref.name[:200]}.{digest}"


class EventPacer(Protocol):
    """Says when another event may be written."""

    def wait(self) -> float:
        """Return the seconds after which to ask again; 0.0: one may be written now, and counts as written."""


class EventRecorder:
    """Writes Kubernetes events in the background: ``event`` queues, ``run`` writes.

    ``component`` is shown as the source. ``pace``: when there may be another one; absent: at any time.
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
        self._pending: OrderedDict[_Key, int] = OrderedDict()  # with how often it happened since it was last written
        self._waiting: dict[str, dict[_Key, None]] = {}  # the same by namespace
        self._dropped = 0
        self._turns = 0
        self._served: dict[str, int] = {}  # by namespace, the number of its last event
        self._wake = asyncio.Event()
        self._busy: set[ObjectRef] = set()  # objects of which an event is being written

    def event(self, ref: ObjectRef, type: EventLevel, reason: str, message: str) -> None:
        """Queue one event; never waits and never raises."""
        text = message.encode(errors="replace")[:MESSAGE_LIMIT].decode(errors="ignore")
        key = _Key(ref, type, str(reason), text)
        self._pending[key] = self._pending.get(key, 0) + 1
        self._waiting.setdefault(ref.namespace, {})[key] = None
        if len(self._pending) > PENDING_LIMIT:
            dropped = next(iter(self._pending))
            self._take(dropped)
            if self._dropped % PENDING_LIMIT == 0:
                last = (dropped.reason, dropped.message)
                _log.warning("Too many events wait for the API server: dropped %s: %s, and those after it", *last)
            self._dropped += 1
        self._wake.set()

    @property
    def idle(self) -> bool:
        """Whether everything is written."""
        return not self._pending and not self._busy

    async def run(self) -> None:
        """Write until cancelled: one event of an object at a time, a few objects of a namespace at once.

        So an object or a namespace whose events are not taken, or not answered, delays no other's.
        """
        async with asyncio.TaskGroup() as writers:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while (key := self._next()) is not None:
                    if self._pace is not None and (seconds := self._pace.wait()):
                        await self._sleep(seconds)
                        continue  # an event that was told once more meanwhile is written with that count
                    self._note_turn(key.ref.namespace)
                    self._busy.add(key.ref)
                    writers.create_task(self._write_one(key, self._take(key)))

    def _take(self, key: _Key) -> int:
        """Take one from those that wait; gives how often it happened."""
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
        # The namespace whose last event is longest ago: one that has a thousand to tell delays nobody else's.
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
            except NotFound:  # it expired just now
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
