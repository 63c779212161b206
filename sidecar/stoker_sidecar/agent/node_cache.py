"""The node's NodeCache: its spec becomes the plan; its status and events say what happened on the node."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Literal

from pydantic import ValidationError

from stoker_api.backoff import Backoff
from stoker_api.names import API_VERSION, Reason
from stoker_api.nodecache import REPORT_SECONDS, NodeCache, NodeCacheStatus
from stoker_kube.api import Kube
from stoker_kube.errors import KubeError, NotFound
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_kube.resources import NODE_CACHES
from stoker_kube.watch import EventType, WatchEvent, watch
from stoker_sidecar.agent.core.status import is_urgent
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.fetcher_protocol import Notice

log = logging.getLogger(__name__)
URGENT_SECONDS = 0.2  # between any two writes: a burst of mounts becomes a few writes
_URGENT_SHARE = 0.02  # the same of the pace of figures, where that is longer: 5 s in a cluster of 5,000 nodes
_CALM = frozenset({Reason.EVICTED, Reason.HEALTHY})  # reasons of events that are no warnings


async def follow_node_cache(kube: Kube, node_name: str, plan: NodePlan) -> None:
    """Keep the plan as the NodeCache's spec says, until cancelled.

    With no NodeCache it waits: the operator makes it.
    """
    async for event in watch(kube, NODE_CACHES, field_selector=f"metadata.name={node_name}"):
        if event.type is EventType.SYNCED:
            plan.set_synced()
        else:
            _take(event, plan)


def _take(event: WatchEvent, plan: NodePlan) -> None:
    if event.type is EventType.DELETED:
        return plan.lose_node_cache()
    try:
        cache = NodeCache.model_validate(event.object)
    except ValidationError as error:
        # An operator of another version, or a person; the last plan that could be read goes on.
        return log.error("the plan of this node cannot be read and is left as it was: %s", error)
    return plan.take_node_cache(cache)


class StatusWriter:
    """Writes NodeCache.status when something happened, seldom when only figures moved, never when nothing changed.

    ``compute(written)`` gives the status as it should be, from the one written last (None: not by this process).
    ``pace()``: seconds between two writes in which only figures moved, as the operator set them.

    A node of a small cluster writes figures at once and then rests. Where there are many they may all have something to
    say at the same moment, so each has a time of its own within the pace, and waits for that.
    """

    def __init__(
        self,
        kube: Kube,
        node_name: str,
        changes: Changes,
        compute: Callable[[NodeCacheStatus | None], NodeCacheStatus | None],
        *,
        pace: Callable[[], float] = lambda: REPORT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self._pace = pace
        self._place = rand()  # of this node within the pace of all, as a share of it
        self._due: float | None = None  # when figures that moved are written
        self._kube = kube
        self._node_name = node_name
        self._changes = changes
        self._compute = compute
        self._clock = clock
        self._sleep = sleep
        self._written: NodeCacheStatus | None = None
        self._written_at = float("-inf")
        self._backoff = Backoff(first=0.5, cap=15.0)

    async def run(self) -> None:
        """Write the status at every change that is worth it, until cancelled."""
        while True:
            token = self._changes.token()
            wait = await self.write_if_due()
            await self._changes.wait(token, wait)
            rest = max(URGENT_SECONDS, _URGENT_SHARE * self._pace())
            await self._sleep(max(0.0, self._written_at + rest - self._clock()))

    async def write_if_due(self) -> float | None:
        """Write when it is time; return the seconds until it may be time again with no further change, None: never."""
        status = self._compute(self._written)
        if status is None:
            self._written = None  # no NodeCache: the next one must be told everything
        if status is None or status == self._written:
            self._due = None
            return None
        urgent = self._written is None or is_urgent(self._written, status)
        left = 0.0 if urgent else self._left()
        if left > 0:
            return left
        try:
            await self._kube.patch(NODE_CACHES, self._node_name, {"status": status.wire()}, subresource="status")
        except NotFound:
            self._written = None  # the operator makes it again, and then this status must be written whole
            return None
        except KubeError as error:
            log.warning("the status of this node cannot be written now: %s", error.message)
            return self._backoff.next()
        self._written, self._written_at, self._due = status, self._clock(), None
        self._backoff.reset()
        return None

    def _left(self) -> float:
        """Return the seconds until figures that moved may be written."""
        pace, now = self._pace(), self._clock()
        if pace <= REPORT_SECONDS:
            return self._written_at + pace - now
        mine = now + (self._place * pace - now) % pace  # the next time of this node's own
        self._due = mine if self._due is None else min(self._due, mine)
        return self._due - now


class NoticeTeller:
    """Makes Kubernetes events of what the fetcher wants people to be told once: evictions, repairs, folders that fail.

    They are events of Datasets, or of this node's NodeCache.
    """

    def __init__(self, kube: Kube, node_name: str, plan: NodePlan) -> None:
        self._recorder = EventRecorder(kube, "stoker-sidecar")
        self._node_name = node_name
        self._plan = plan
        self._told = 0  # the highest number

    async def run(self) -> None:
        """Tell at every change, until cancelled."""
        writing = asyncio.create_task(self._recorder.run())
        try:
            while True:
                token = self._plan.changes.token()
                self.tell_new()
                await self._plan.changes.wait(token)
        finally:
            writing.cancel()

    def tell_new(self) -> None:
        """Queue an event for each notice that is new."""
        if self._plan.generation is None:
            return
        for notice in _after(self._told, self._plan.notices):
            kind: Literal["Normal", "Warning"] = "Normal" if notice.reason in _CALM else "Warning"
            self._recorder.event(self._about(notice), kind, notice.reason, f"{self._node_name}: {notice.message}")
            self._told = notice.number

    def _about(self, notice: Notice) -> ObjectRef:
        row = self._plan.planned.get(notice.uid) or self._plan.status_of(notice.uid)
        if row is None:
            return ObjectRef(API_VERSION, NodeCache.KIND, self._node_name, uid=self._plan.cache_uid)
        return ObjectRef(API_VERSION, "Dataset", row.name, row.namespace, row.uid)


def _after(number: int, notices: Iterable[Notice]) -> Iterator[Notice]:
    return (notice for notice in notices if notice.number > number)
