"""The node's NodeCache: its spec becomes the plan; its status and events report the node's state."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from stoker_api.backoff import Backoff
from stoker_api.meta import shortened
from stoker_api.names import API_VERSION, Reason
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.nodecache import REPORT_SECONDS, NodeCache
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_api.tolerant import Place, read_tolerantly
from stoker_kube.api import Kube
from stoker_kube.errors import KubeError, NotFound
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_kube.resources import NODE_CACHES
from stoker_kube.watch import EventType, WatchEvent, watch
from stoker_sidecar.agent.core.status import is_urgent
from stoker_sidecar.agent.core.status_room import MOST_STATUS, fitted, stored_size
from stoker_sidecar.agent.core.workload_rows import phases
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.fetcher_protocol import Notice

log = logging.getLogger(__name__)

_ROWS = ("datasets", "origins")  # lists of the spec that are parsed row by row


class ReadNodeCache(NamedTuple):
    """A NodeCache, and the places of values that this release cannot parse."""

    cache: NodeCache
    left_out: tuple[Place, ...]


def read_node_cache(raw: Mapping[str, Any], last: Mapping[str, NodeDataset]) -> ReadNodeCache:
    """Parse it. An unparsable Dataset keeps its last row, or at least stays on the disk. Raises ValidationError.

    ``last`` is the previous plan, by UID.
    """
    cache, left_out = read_tolerantly(NodeCache, raw, _left_out)
    rows = [raw["spec"]["datasets"][place[2]] for place in left_out if place[:2] == ("spec", "datasets")]
    if rows:
        cache = _with_rows_kept(cache, [_uid(row) for row in rows], last)
    return ReadNodeCache(cache, left_out)


def _left_out(place: Place) -> Place | None:
    """In the spec, drop whole rows: a default could allow what the operator did not.

    In the status, drop single values.
    """
    if place[:1] == ("status",):
        return place
    return place[:3] if place[:1] == ("spec",) and place[1:2] and place[1] in _ROWS and len(place) > 2 else None


def _uid(row: Any) -> str:
    uid = row.get("uid") if isinstance(row, Mapping) else None
    return uid if isinstance(uid, str) else ""


def _with_rows_kept(cache: NodeCache, uids: list[str], last: Mapping[str, NodeDataset]) -> NodeCache:
    spec = cache.spec
    kept = {
        "datasets": spec.datasets + tuple(last[uid] for uid in uids if uid in last),
        "keep": spec.keep + tuple(uid for uid in uids if uid and uid not in last),
        "keep_unlisted": spec.keep_unlisted or "" in uids,
    }
    return cache.model_copy(update={"spec": spec.model_copy(update=kept)})


URGENT_SECONDS = 0.2  # between any two writes, so that a burst of mounts needs few writes
_URGENT_SHARE = 0.02  # the same as a share of a longer report interval: 5 s in a cluster of 5,000 nodes
# Bytes of the smallest status after the API server refuses one as too large, and the seconds that it stays smaller.
LEAST_STATUS, SMALLER_SECONDS = 50_000, 600.0
_MOST_TOLD = 1000  # characters of an error in a log line
_CALM = frozenset({Reason.EVICTED, Reason.HEALTHY})  # reasons of events that are not warnings


async def follow_node_cache(kube: Kube, node_name: str, plan: NodePlan) -> None:
    """Keep the plan equal to the NodeCache's spec, until cancelled.

    Without a NodeCache, wait for the operator to create it.
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
        cache, left_out = read_node_cache(event.object, plan.planned)
    except ValidationError as error:
        # written by an operator of another version, or a person; the last valid plan stays in force
        why = shortened(str(error), _MOST_TOLD)
        return log.error("the plan of this node cannot be read and stays unchanged: %s", why)
    if left_out:
        first = shortened(".".join(map(str, left_out[0])), _MOST_TOLD)
        log.warning("%d values of the NodeCache are of another release and are left out: %s", len(left_out), first)
    return plan.take_node_cache(cache)


class StatusWriter:
    """Writes NodeCache.status: at once on events, rarely when only figures change, never without a change.

    ``compute(written)`` returns the current status, given the last written one (None: not by this process). ``pace()``
    is the operator's interval in seconds between writes with changed figures only.

    A node of a small cluster writes figures at once and then rests. In a large cluster, all nodes may have news at the
    same moment, so each has a separate time slot within the interval, and waits for it.

    A status that the API server refuses as too large is written with half the size for ten minutes. Another object of
    the node may fill etcd's limit, and the same status would be refused forever.
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
        self._place = rand()  # this node's slot in the common interval, as a share of it
        self._due: float | None = None  # time at which changed figures are written
        self._kube = kube
        self._node_name = node_name
        self._changes = changes
        self._compute = compute
        self._clock = clock
        self._sleep = sleep
        self._written: NodeCacheStatus | None = None
        self._written_at = float("-inf")
        self._backoff = Backoff(first=0.5, cap=15.0)
        self._most = MOST_STATUS
        self._smaller_until = float("-inf")

    async def run(self) -> None:
        """Write the status at every change that needs it, until cancelled."""
        while True:
            token = self._changes.token()
            wait = await self.write_if_due()
            await self._changes.wait(token, wait)
            rest = max(URGENT_SECONDS, _URGENT_SHARE * self._pace())
            await self._sleep(max(0.0, self._written_at + rest - self._clock()))

    async def write_if_due(self) -> float | None:
        """Write if it is due. Return the seconds until the next possible write without further changes; None: never."""
        status = self._fitted(self._compute(self._written))
        if status is None:
            self._written = None  # no NodeCache: a new one needs the whole status
        if status is None or status == self._written:
            self._due = None
            return None
        urgent = self._written is None or is_urgent(self._written, status) or self._has_phase(self._written, status)
        left = 0.0 if urgent else self._left()
        if left > 0:
            return left
        try:
            await self._kube.patch(NODE_CACHES, self._node_name, {"status": status.wire()}, subresource="status")
        except NotFound:
            self._written = None  # the operator will recreate it, and then it needs the whole status
            return None
        except KubeError as error:
            log.warning("the status of this node cannot be written now: %s", shortened(error.message, _MOST_TOLD))
            return 0.0 if error.too_large and self._make_smaller(status) else self._backoff.next()
        self._written, self._written_at, self._due = status, self._clock(), None
        self._backoff.reset()
        return None

    def _has_phase(self, old: NodeCacheStatus, new: NodeCacheStatus) -> bool:
        """Return True if a pod entered another phase or epoch, and the cluster is small enough to report it at once."""
        return self._pace() <= REPORT_SECONDS and phases(old.workloads) != phases(new.workloads)

    def _fitted(self, status: NodeCacheStatus | None) -> NodeCacheStatus | None:
        if self._clock() >= self._smaller_until:
            self._most = MOST_STATUS
        return status if status is None or self._most == MOST_STATUS else fitted(status, self._most)

    def _make_smaller(self, refused: NodeCacheStatus) -> bool:
        """Halve the size of the status. Return False at the minimum."""
        if self._most <= LEAST_STATUS:
            return False
        self._most = max(LEAST_STATUS, min(self._most, stored_size(refused)) // 2)
        self._smaller_until = self._clock() + SMALLER_SECONDS
        return True

    def _left(self) -> float:
        """Return the seconds until changed figures may be written."""
        pace, now = self._pace(), self._clock()
        if pace <= REPORT_SECONDS:
            return self._written_at + pace - now
        mine = now + (self._place * pace - now) % pace  # the next slot of this node
        self._due = mine if self._due is None else min(self._due, mine)
        return self._due - now


class NoticeTeller:
    """Creates Kubernetes events from the fetcher's one-time notices: evictions, repairs, failing folders.

    The events belong to Datasets, or to this node's NodeCache.
    """

    def __init__(self, kube: Kube, node_name: str, plan: NodePlan) -> None:
        self._recorder = EventRecorder(kube, "stoker-sidecar")
        self._node_name = node_name
        self._plan = plan
        self._told = 0  # the highest number

    async def run(self) -> None:
        """Create events at every change, until cancelled."""
        writing = asyncio.create_task(self._recorder.run())
        try:
            while True:
                token = self._plan.changes.token()
                self.tell_new()
                await self._plan.changes.wait(token)
        finally:
            writing.cancel()

    def tell_new(self) -> None:
        """Queue an event for each new notice."""
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
