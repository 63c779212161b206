"""Held pods: a level-triggered pass that releases those that may go and writes on the others why they wait."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from stoker_api import names
from stoker_api.names import Reason
from stoker_api.release import ReleaseNode, ReleaseRecord
from stoker_api.times import format_time
from stoker_kube.api import Object
from stoker_kube.errors import Conflict, NotFound
from stoker_kube.events import EventLevel, EventRecorder, ObjectRef
from stoker_kube.resources import PODS
from stoker_operator import metrics
from stoker_operator.core.bookings import ReleaseBook
from stoker_operator.core.gating import Hold, Release, decide_releases
from stoker_operator.core.injection import pointer, remove_gate
from stoker_operator.core.notices import NoticeBook
from stoker_operator.core.pod_demand import held_from
from stoker_operator.core.stuck_pods import StuckPod, find_stuck
from stoker_operator.core.views import ClusterView, PodView, parse_pod
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.keyed_work import KeyedWork
from stoker_operator.reconcilers.turns import Act, KeyedAction
from stoker_operator.writer import Writer

log = logging.getLogger(__name__)

_RELEASE = "release"  # the step, and the beginning of its keys
_QUIET = frozenset({Reason.WAITING_FOR_DATA, Reason.WAITING_FOR_GANG, Reason.WAITING_FOR_GATES, Reason.RELEASED})


class PodGate:
    """Releases held pods, or says why they wait, pass by pass; ``clock`` gives seconds since the epoch."""

    def __init__(self, writer: Writer, state: ClusterState, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._events: Final = events
        self._clock: Final = clock
        self._notices: Final = NoticeBook()
        self._going: Final[dict[str, PodView]] = {}  # pods whose release is under way, as they will be after it
        self._book: Final = ReleaseBook()
        self._told_stuck: set[str] = set()
        self.work: Final = KeyedWork("pods", clock, events)

    async def reconcile(self) -> float | None:
        """Run one pass; gives the seconds after which time alone calls for another. Waits for no write."""
        now = self._clock()
        view = self._state.snapshot()
        refused = {pod.key: key for key in self.work.waiting() if (pod := _find(view, key)) is not None}
        outcome = decide_releases(self._seen(view, refused.keys()), now, self._book.current(now))
        self._state.set_wanted(outcome.wanted, outcome.versions)
        self._notices.keep_only(hold.pod.uid for hold in outcome.holds)
        releases = (self._action(_RELEASE, one.pod, partial(self._release, one)) for one in outcome.releases)
        holds = (self._action("reason", one.pod, partial(self._hold, one)) for one in outcome.holds)
        stuck, next_stuck = find_stuck(view.pods.values(), now)
        self._tell_stuck(stuck)
        again = (outcome.next_deadline(now), next_stuck, self.work.take((*releases, *holds), keep=refused.values()))
        return min((seconds for seconds in again if seconds is not None), default=None)

    def _seen(self, view: ClusterView, refused: Collection[str]) -> ClusterView:
        """Return the view with releases under way as done, lest their room be given away a second time.

        Without the pods that could not be released a moment ago: they must not keep the room from others.
        """
        under_way = {key: pod for key, pod in self._going.items() if _is_there(view, pod)}
        if not refused and not under_way:
            return view
        pods = {key: pod for key, pod in view.pods.items() if key not in refused}
        return replace(view, pods=MappingProxyType(pods | under_way))

    def _action(self, step: str, pod: PodView, act: Act) -> KeyedAction:
        return KeyedAction(f"{step} of pod {pod.key}", step, pod.namespace, act, pod.uid, _ref(pod))

    async def _release(self, release: Release) -> None:
        pod, patch = release.pod, release_patch(release, self._clock())
        self._going[pod.key] = released_view(release, self._clock())
        # Before it is written: should the answer get lost, the pod may be on its way.
        self._book.note(pod.uid, [one.node for one in release.nodes], self._clock())
        try:
            released = await self._patch(pod, patch)
        finally:
            del self._going[pod.key]
        if released:
            log.info("released pod %s: %s", pod.key, release.sentence)
            self._tell(pod, release.reason, release.sentence)

    async def _hold(self, hold: Hold) -> float | None:
        pod, why = hold.pod, hold.why
        notice = self._notices.consider(pod.uid, pod.waiting, why, self._clock())
        if notice.event:
            self._tell(pod, Reason.MAX_WAIT_PASSED if why.overdue else why.reason, why.sentence)
        if notice.annotate or hold.held_since is not None:
            annotations = {names.ANNOTATION_WAITING: why.sentence}
            annotations |= {} if hold.held_since is None else {names.ANNOTATION_HELD_SINCE: hold.held_since}
            await self._patch(pod, {"metadata": {"annotations": annotations}})
        return notice.again

    async def _patch(self, pod: PodView, body: Object | list[Object]) -> bool:
        """Write onto a pod; False when it is gone or changed meanwhile, of which the watch tells."""
        try:
            if isinstance(body, list):
                written = await self._writer.edit(PODS, pod.name, pod.namespace, body)
            else:
                written = await self._writer.merge(PODS, pod.name, pod.namespace, body)
        except (NotFound, Conflict) as error:
            # Only the watch says that it is gone: a 404 may also mean that its kind is not served for a moment.
            log.debug("pod %s changed while it was written: %s", pod.key, error)
            return False
        # The next pass must not decide on what was true before this write.
        self._state.pods.put(pod.key, parse_pod(written))
        return True

    def _tell_stuck(self, stuck: Sequence[StuckPod]) -> None:
        metrics.UNSCHEDULABLE.set(len(stuck))
        for one in stuck:
            if one.pod.uid not in self._told_stuck:
                self._tell(one.pod, Reason.UNSCHEDULABLE, one.sentence)
        self._told_stuck = {one.pod.uid for one in stuck}

    def _tell(self, pod: PodView, reason: Reason, message: str) -> None:
        level: EventLevel = "Normal" if reason in _QUIET else "Warning"
        self._events.event(_ref(pod), level, reason.value, message)


def _find(view: ClusterView, key: str) -> PodView | None:
    """Find the held pod whose release ``key`` names."""
    step, _, pod = key.partition(" of pod ")
    found = view.pods.get(pod)
    return found if step == _RELEASE and found is not None and found.gated else None


def _is_there(view: ClusterView, pod: PodView) -> bool:
    known = view.pods.get(pod.key)
    return known is not None and known.uid == pod.uid


def _ref(pod: PodView) -> ObjectRef:
    return ObjectRef("v1", "Pod", pod.name, pod.namespace, pod.uid)


def released_view(release: Release, now: float) -> PodView:
    """Return the pod as it will be once it is released."""
    pod = release.pod
    gates = tuple(gate for gate in pod.gates if gate != names.GATE_WARM)
    affinity = pod.affinity if release.affinity is None else release.affinity
    return replace(pod, gates=gates, affinity=affinity, released=_record(release, now), waiting="")


def release_patch(release: Release, now: float) -> list[Object]:
    """Make a JSON patch that lets a pod go.

    Gate off, affinity and record on, in one write that fails when the gate is gone.
    """
    pod = release.pod
    operations: list[Object] = [{"op": "test", "path": "/metadata/uid", "value": pod.uid}] if pod.uid else []
    operations += remove_gate(pod.gates)
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
        held_since=format_time(held_from(release.pod, now)),
        released_at=format_time(now),
        mode=release.mode.value,
        nodes=tuple(nodes),
    )
    return record.model_dump_json(by_alias=True)
