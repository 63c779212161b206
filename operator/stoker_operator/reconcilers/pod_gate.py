"""Held pods: a level-triggered pass that releases ready pods and writes the reason onto waiting pods."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from stoker_api import names
from stoker_api.datasets.release import ReleaseNode, ReleaseRecord
from stoker_api.names import Reason
from stoker_api.times import format_time
from stoker_kube.api import Object
from stoker_kube.errors import Conflict, Forbidden, Invalid, NotFound
from stoker_kube.events import EventLevel, EventRecorder, ObjectRef
from stoker_kube.resources import PODS
from stoker_kube.tracing.spans import GateSpans
from stoker_operator import metrics
from stoker_operator.core.fitting.pod_demand import held_from
from stoker_operator.core.gating.gating import Gating
from stoker_operator.core.gating.notices import NoticeBook, ReleaseBook, StuckPod, find_stuck, is_refused
from stoker_operator.core.gating.releases import Hold, Outcome, Release
from stoker_operator.core.pods.injection import pointer, remove_gate
from stoker_operator.core.views.cluster import PodView, parse_pod
from stoker_operator.metrics import HeldPods
from stoker_operator.mirror.gate_feed import GateFeed
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.loops.keyed_work import KeyedWork
from stoker_operator.reconcilers.loops.turns import Act, KeyedAction
from stoker_operator.writes.write_budget import WritePriority
from stoker_operator.writes.writer import Writer

log = logging.getLogger(__name__)

_RELEASE, _REASON = "release", "reason"  # the steps, and the prefixes of their keys
_CROWD = 8  # pods under release: from this many on, events about pods are delayed
_QUIET = frozenset({Reason.WAITING_FOR_DATA, Reason.WAITING_FOR_GANG, Reason.WAITING_FOR_GATES, Reason.RELEASED})


@dataclass
class _Going:
    """A pod with a decided release; ``after``: the pod after the release. ``begun``: the write may have started.

    ``action`` releases the pod. It is created once, because hundreds of pods may wait for many passes.
    """

    release: Release
    after: PodView
    action: KeyedAction
    begun: bool = False


class PodGate:
    """Releases held pods, or writes why they wait, pass by pass; ``clock`` returns seconds since the epoch.

    ``spans``: where their traces go; None: nowhere.
    """

    def __init__(
        self,
        writer: Writer,
        state: ClusterState,
        events: EventRecorder,
        clock: Callable[[], float],
        spans: GateSpans | None = None,
    ) -> None:
        self._spans: Final = spans
        self._writer: Final = writer
        self._state: Final = state
        self._events: Final = events
        self._clock: Final = clock
        self._notices: Final = NoticeBook()
        self._held: Final = HeldPods()
        self._going: Final[dict[str, _Going]] = {}
        self._refused: dict[str, str] = {}  # pods whose release just failed -> keys of the actions
        self._reasons: Final[dict[str, Hold]] = {}  # by pod, until they are written
        self._book: Final = ReleaseBook()
        self._unplaced: Final[dict[str, PodView]] = {}  # released pods that the scheduler finds no node for
        self._told_stuck: set[str] = set()
        self.work: Final = KeyedWork("pods", clock, events, budget=writer.budget)
        self._gating = Gating()
        self._feed: Final = GateFeed(state, self._seen)
        for pod in state.pods.snapshot().values():
            self._look_at(None, pod)
        state.pods.listen(self._look_at)

    @property
    def crowded(self) -> bool:
        """True while many releases are under way."""
        return len(self._going) >= _CROWD

    async def reconcile(self) -> float | None:
        """Run one pass; return the seconds until time alone requires the next. Does not wait for writes."""
        now = self._clock()
        try:
            outcome = self._decide(now)
        except BaseException:
            # The drained changes are lost without a decision: start again with all objects.
            self._gating = Gating()
            self._feed.reload()
            raise
        self._state.set_wanted(outcome.wanted.nodes, outcome.wanted.versions)
        for pod in outcome.left:
            self._notices.forget(pod.uid)
            self._reasons.pop(pod.key, None)
        if self._spans is not None:
            _trace(self._spans, outcome, now)
        for release in outcome.releases:
            self._promise(release)
        for hold in outcome.holds:
            self._reasons[hold.pod.key] = hold
            self._count_hold(hold)
        stuck, next_stuck = find_stuck(self._unplaced.values(), now)
        self._tell_stuck(stuck)
        due = self.work.take(self._actions(), self._refused.values())
        again = (outcome.next_deadline(now), next_stuck, due)
        return min((seconds for seconds in again if seconds is not None), default=None)

    def _decide(self, now: float) -> Outcome:
        self._hide_refused()
        self._feed.drain(self._gating, now)
        under_way = {one.after.uid: _nodes(one.release) for one in self._going.values()}
        bookings = {**self._book.current(now), **under_way}
        return self._gating.decide(now, bookings)

    def _hide_refused(self) -> None:
        """Hide pods whose release just failed: they must not block room that other pods could use."""
        waiting = {key: self._state.pods.get(_pod_of(key)) for key in self.work.waiting() if _is_release(key)}
        refused = {pod.key: key for key, pod in waiting.items() if pod is not None and pod.gated}
        for pod in refused.keys() ^ self._refused.keys():
            self._feed.touch(pod)
        self._refused = refused

    def _seen(self, key: str, pod: PodView | None) -> PodView | None:
        """Return the pod as gating should see it: a release under way counts as done, so that its room stays booked."""
        going = self._going.get(key)
        if going is not None:
            decided_on = going.release.pod
            if pod is not None and pod.uid == decided_on.uid and (going.begun or pod == decided_on):
                return going.after
            # The pod changed before its turn.
            self._give_up(going)
        return None if key in self._refused and pod is not None and pod.gated else pod

    def _count_hold(self, hold: Hold) -> None:
        pod = self._state.pods.get(hold.pod.key)
        if pod is not None and pod.gated:
            self._held.hold(pod.key, _shown_reason(hold))

    def _look_at(self, old: PodView | None, new: PodView | None) -> None:
        """Take a change of a pod: it may have a node now, or be unschedulable."""
        if old is not None and (new is None or new.uid != old.uid):
            self._unplaced.pop(old.key, None)
            self._book.forget(old.uid)
        if new is not None and new.node:
            self._book.forget(new.uid)
        if old is not None and (new is None or not new.gated):
            self._held.drop(old.key)
        if new is not None and is_refused(new):
            self._unplaced[new.key] = new
        elif new is not None:
            self._unplaced.pop(new.key, None)

    def _promise(self, release: Release) -> None:
        """Release a pod as soon as its turn comes; until then it counts as released."""
        pod = release.pod
        self._notices.forget(pod.uid)
        self._reasons.pop(pod.key, None)
        action = _action(_RELEASE, pod, partial(self._release, release))
        self._going[pod.key] = _Going(release, _after(release), action)
        self._feed.touch(pod.key)

    def _actions(self) -> Iterator[KeyedAction]:
        for going in list(self._going.values()):  # lists: some end between two steps
            if not going.begun:
                yield going.action
        for key, hold in list(self._reasons.items()):
            yield _action(_REASON, hold.pod, partial(self._hold, key))

    def _give_up(self, going: _Going) -> None:
        key = going.release.pod.key
        if self._going.get(key) is going:
            del self._going[key]
            self._feed.touch(key)

    async def _release(self, release: Release) -> None:
        pod = release.pod
        going = self._going.get(pod.key)
        if going is None or going.release is not release:
            return
        if self._state.pods.get(pod.key) != pod or not self._is_up(release):
            # The turn came late, and the basis of the decision has changed.
            self._give_up(going)
            self.work.wake()
            return
        going.begun = True
        # Book before the write: if the response gets lost, the pod may be on its way.
        self._book.note(pod.uid, _nodes(release), self._clock())
        try:
            if release.nominated:
                await self._nominate(pod, release.nominated)
            released = await self._patch(pod, release_patch(release, self._clock()))
        finally:
            self._give_up(going)
        if released:
            now = self._clock()
            metrics.HOLD_SECONDS.labels(release.reason.value).observe(max(0.0, now - held_from(pod, now)))
            log.info("released pod %s: %s", pod.key, release.sentence)
            if self._spans is not None:
                facts = {"stoker.reason": release.reason.value, "stoker.nodes": ",".join(_nodes(release))}
                self._spans.released(pod.namespace, pod.name, pod.uid, held_from(pod, now), now, facts)
            self._tell(pod, release.reason, release.sentence)

    async def _nominate(self, pod: PodView, node: str) -> None:
        """Make the scheduler try this node first. The gate is still on, so the scheduler sees this when the gate goes.

        On failure the pod is released all the same: its node affinity still prefers the node.
        """
        body: Object = {"metadata": {"uid": pod.uid} if pod.uid else {}, "status": {"nominatedNodeName": node}}
        try:
            await self._writer.merge(PODS, pod.name, pod.namespace, body, subresource="status")
        except (NotFound, Conflict):
            return  # the pod is gone or changed: the release handles this
        except (Forbidden, Invalid) as error:
            log.warning("node %s could not be nominated for pod %s: %s", node, pod.key, error)

    def _is_up(self, release: Release) -> bool:
        """Return True if the release names no node, or its node is still usable: the turn may come late."""
        node = self._state.nodes.get(release.nodes[0].node) if release.nodes else None
        leaving = node is not None and self._state.leaving.reason(node)
        return not release.nodes or (node is not None and node.ready and node.schedulable and not leaving)

    async def _hold(self, key: str) -> float | None:
        """Write the last decided reason why a pod waits."""
        hold = self._reasons.pop(key, None)
        if hold is None:
            return None
        pod, why = hold.pod, hold.why
        notice = self._notices.consider(pod.uid, pod.waiting, why, self._clock())
        if notice.event:
            self._tell(pod, _shown_reason(hold), why.sentence)
        if notice.annotate or hold.held_since is not None:
            annotations = {names.ANNOTATION_WAITING: why.sentence}
            annotations |= {} if hold.held_since is None else {names.ANNOTATION_HELD_SINCE: hold.held_since}
            try:
                await self._patch(pod, {"metadata": {"annotations": annotations}})
            except BaseException:
                self._notices.failed(pod.uid)
                self._reasons.setdefault(key, hold)
                raise
        if notice.again is not None:
            self._reasons.setdefault(key, hold)
        return notice.again

    async def _patch(self, pod: PodView, body: Object | list[Object]) -> bool:
        """Write to a pod; return False if it is gone or has changed, which the watch reports."""
        try:
            if isinstance(body, list):
                written = await self._writer.edit(PODS, pod.name, pod.namespace, body)
            else:
                written = await self._writer.merge(PODS, pod.name, pod.namespace, body)
        except (NotFound, Conflict) as error:
            # Only the watch decides that a pod is gone: a 404 may also mean that the API server does not serve its kind
            # for now.
            log.debug("pod %s changed while it was written: %s", pod.key, error)
            return False
        # The next pass must see this write.
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


def _trace(spans: GateSpans, outcome: Outcome, now: float) -> None:
    for pod in outcome.left:
        spans.forget(pod.uid)
    for hold in outcome.holds:
        spans.decided(hold.pod.uid, now)
    for release in outcome.releases:
        spans.warm(release.pod.uid, now)


def _action(step: str, pod: PodView, act: Act) -> KeyedAction:
    # A release waits for no budget: all other writes serve it.
    priority = None if step == _RELEASE else WritePriority.TOLD
    return KeyedAction(f"{step} of pod {pod.key}", step, pod.namespace, act, pod.uid, _ref(pod), priority)


def _shown_reason(hold: Hold) -> Reason:
    return Reason.MAX_WAIT_PASSED if hold.why.overdue else hold.why.reason


def _is_release(key: str) -> bool:
    return key.startswith(f"{_RELEASE} of pod ")


def _pod_of(key: str) -> str:
    return key.partition(" of pod ")[2]


def _nodes(release: Release) -> list[str]:
    return [one.node for one in release.nodes]


def _ref(pod: PodView) -> ObjectRef:
    return ObjectRef("v1", "Pod", pod.name, pod.namespace, pod.uid)


def _after(release: Release) -> PodView:
    """Return the pod after its release, as seen by decisions on other pods."""
    return replace(release.pod, gates=release.pod.other_gates)


def release_patch(release: Release, now: float) -> list[Object]:
    """Return the JSON patch that releases a pod.

    One write removes the gate and adds the affinity and the record. It fails if the gate is gone.
    """
    pod = release.pod
    operations: list[Object] = [{"op": "test", "path": "/metadata/uid", "value": pod.uid}] if pod.uid else []
    operations += remove_gate(pod.gates)
    if release.affinity is not None:
        operations.append({"op": "add", "path": "/spec/affinity", "value": dict(release.affinity)})
    released = pointer("metadata", "annotations", names.ANNOTATION_RELEASED)
    operations.append({"op": "add", "path": released, "value": _record(release, now)})
    # The write of a reason may be under way, and a removal of a missing annotation would fail.
    waiting = pointer("metadata", "annotations", names.ANNOTATION_WAITING)
    return [*operations, {"op": "add", "path": waiting, "value": ""}, {"op": "remove", "path": waiting}]


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
