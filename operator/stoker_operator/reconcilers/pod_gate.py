"""Held pods: a level-triggered pass that releases those that may go and writes on the others why they wait."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from stoker_api import names
from stoker_api.names import Reason
from stoker_api.release import ReleaseNode, ReleaseRecord
from stoker_api.times import format_time
from stoker_kube.api import Object
from stoker_kube.errors import Conflict, KubeError, NotFound
from stoker_kube.events import EventLevel, EventRecorder, ObjectRef
from stoker_kube.resources import PODS
from stoker_operator.core.gating import Hold, Release, decide_releases
from stoker_operator.core.injection import pointer, remove_gate
from stoker_operator.core.notices import NoticeBook
from stoker_operator.core.views import PodView, parse_pod
from stoker_operator.mirror.state import ClusterState
from stoker_operator.writer import Writer

log = logging.getLogger(__name__)

_PARALLEL = 8  # patches under way: a gang of hundreds goes in seconds, and the API server has room for others
_RETRY = 5.0  # seconds until a release that the API server refused is tried again
_QUIET = frozenset({Reason.WAITING_FOR_DATA, Reason.WAITING_FOR_GANG, Reason.RELEASED})


class PodGate:
    """Releases held pods, or says why they wait, pass by pass; ``clock`` gives seconds since the epoch."""

    def __init__(self, writer: Writer, state: ClusterState, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._events: Final = events
        self._clock: Final = clock
        self._notices: Final = NoticeBook()
        self._slots: Final = asyncio.Semaphore(_PARALLEL)

    async def reconcile(self) -> float | None:
        """Run one pass; gives the seconds after which the next is due even if nothing changes. Raises KubeError."""
        now = self._clock()
        outcome = decide_releases(self._state.snapshot(), now)
        self._state.set_wanted(outcome.wanted)
        self._notices.keep_only(hold.pod.uid for hold in outcome.holds)
        writes: list[Awaitable[float | None]] = [self._release(one, now) for one in outcome.releases]
        writes += [self._hold(one, now) for one in outcome.holds]
        again = [outcome.next_deadline(now), *await self._all(writes)]
        return min((seconds for seconds in again if seconds is not None), default=None)

    async def _all(self, writes: Sequence[Awaitable[float | None]]) -> list[float | None]:
        results = await asyncio.gather(*writes, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]

    async def _release(self, release: Release, now: float) -> float | None:
        pod = release.pod
        try:
            await self._patch(pod, release_patch(release, now))
        except (NotFound, Conflict):
            return None  # it is gone, or changed: the watch brings what there is to know
        except KubeError as error:
            if error.temporary:
                raise
            log.warning("pod %s could not be released, trying again: %s", pod.key, error)
            return _RETRY
        log.info("released pod %s: %s", pod.key, release.sentence)
        self._tell(pod, release.reason, release.sentence)
        return None

    async def _hold(self, hold: Hold, now: float) -> float | None:
        notice = self._notices.consider(hold.pod.uid, hold.pod.waiting, hold.why, now)
        if notice.event:
            self._tell(hold.pod, Reason.MAX_WAIT_PASSED if hold.why.overdue else hold.why.reason, hold.why.sentence)
        if notice.annotate:
            body = {"metadata": {"annotations": {names.ANNOTATION_WAITING: hold.why.sentence}}}
            try:
                await self._patch(hold.pod, body)
            except (NotFound, Conflict) as error:
                log.debug("pod %s changed while its reason was written: %s", hold.pod.key, error)
            except KubeError as error:
                if error.temporary:
                    raise
                log.warning("the reason why pod %s waits could not be written: %s", hold.pod.key, error)
        return notice.again

    async def _patch(self, pod: PodView, body: Object | list[Object]) -> None:
        async with self._slots:
            if isinstance(body, list):
                written = await self._writer.edit(PODS, pod.name, pod.namespace, body)
            else:
                written = await self._writer.merge(PODS, pod.name, pod.namespace, body)
        # The next pass must not decide_releases on what was true before this write.
        self._state.pods.put(pod.key, parse_pod(written))

    def _tell(self, pod: PodView, reason: Reason, message: str) -> None:
        level: EventLevel = "Normal" if reason in _QUIET else "Warning"
        self._events.event(ObjectRef("v1", "Pod", pod.name, pod.namespace, pod.uid), level, reason.value, message)


def release_patch(release: Release, now: float) -> list[Object]:
    """Make a JSON patch that lets a pod go.

    Gate off, affinity and record on, in one write that fails when the gate is gone.
    """
    pod = release.pod
    operations = remove_gate(pod.gates)
    if release.affinity is not None:
        operations.append({"op": "add", "path": "/spec/affinity", "value": dict(release.affinity)})
    released = pointer("metadata", "annotations", names.ANNOTATION_RELEASED)
    operations.append({"op": "add", "path": released, "value": _record(release, now)})
    if pod.waiting:
        operations.append({"op": "remove", "path": pointer("metadata", "annotations", names.ANNOTATION_WAITING)})
    return operations


def _record(release: Release, now: float) -> str:
    nodes = (
        ReleaseNode(name=one.node, warm_bytes=one.warmth.warm_bytes, total_bytes=one.warmth.total_bytes)
        for one in release.nodes
    )
    record = ReleaseRecord(
        reason=release.reason.value,
        message=release.sentence,
        held_since=format_time(release.pod.created),
        released_at=format_time(now),
        mode=release.mode.value,
        nodes=tuple(nodes),
    )
    return record.model_dump_json(by_alias=True)
