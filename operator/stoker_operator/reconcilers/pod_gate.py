"""Held pods: a level-triggered pass that releases those that may go and writes on the others why they wait."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from stoker_api import names
from stoker_api.names import Reason
from stoker_api.release import ReleaseNode, ReleaseRecord
from stoker_api.times import format_time
from stoker_kube.api import Object
from stoker_kube.errors import Conflict, Forbidden, Invalid, NotFound
from stoker_kube.events import EventLevel, EventRecorder, ObjectRef
from stoker_kube.resources import PODS
from stoker_operator import metrics
from stoker_operator.core.bookings import ReleaseBook
from stoker_operator.core.gating import Gating
from stoker_operator.core.injection import pointer, remove_gate
from stoker_operator.core.notices import NoticeBook
from stoker_operator.core.pod_demand import held_from
from stoker_operator.core.release_decisions import Hold, Outcome, Release
from stoker_operator.core.stuck_pods import StuckPod, find_stuck, is_refused
from stoker_operator.core.views import PodView, parse_pod
from stoker_operator.mirror.gate_feed import GateFeed
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.keyed_work import KeyedWork
from stoker_operator.reconcilers.slices import in_slices
from stoker_operator.reconcilers.turns import Act, KeyedAction
from stoker_operator.write_budget import WritePriority
from stoker_operator.writer import Writer

log = logging.getLogger(__name__)

_RELEASE, _REASON = "release", "reason"  # the steps, and the beginnings of their keys
_CROWD = 8  # pods whose release is decided: more than a few, and who tells of them can wait until they went
_QUIET = frozenset({Reason.WAITING_FOR_DATA, Reason.WAITING_FOR_GANG, Reason.WAITING_FOR_GATES, Reason.RELEASED})


@dataclass
class _Going:
    """A pod whose release was decided; ``after``: as it will be then. ``begun``: it may be written already.

    ``action`` lets it go; it is made once, for hundreds may wait for their turn and are wished for again in each pass.
    """

    release: Release
    after: PodView
    action: KeyedAction
    begun: bool = False


class PodGate:
    """Releases held pods, or says why they wait, pass by pass; ``clock`` gives seconds since the epoch."""

    def __init__(self, writer: Writer, state: ClusterState, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._events: Final = events
        self._clock: Final = clock
        self._notices: Final = NoticeBook()
        self._going: Final[dict[str, _Going]] = {}
        self._refused: dict[str, str] = {}  # pods that could not be released a moment ago, with the keys of the actions
        self._reasons: Final[dict[str, Hold]] = {}  # by pod, until they are told
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
        """True while many pods are let go at once."""
        return len(self._going) >= _CROWD

    async def reconcile(self) -> float | None:
        """Run one pass; gives the seconds after which time alone calls for another. Waits for no write."""
        now = self._clock()
        try:
            outcome = await self._decide(now)
        except BaseException:
            # What was told and not decided on would be forgotten.
            self._gating = Gating()
            self._feed.reload()
            raise
        self._state.set_wanted(outcome.wanted.nodes, outcome.wanted.versions)
        for pod in outcome.left:
            self._notices.forget(pod.uid)
            self._reasons.pop(pod.key, None)
        for release in outcome.releases:
            self._promise(release)
        self._reasons.update({hold.pod.key: hold for hold in outcome.holds})
        stuck, next_stuck = find_stuck(self._unplaced.values(), now)
        self._tell_stuck(stuck)
        due = await in_slices(self.work.take_in_steps(self._actions(), self._refused.values()))
        again = (outcome.next_deadline(now), next_stuck, due)
        return min((seconds for seconds in again if seconds is not None), default=None)

    async def _decide(self, now: float) -> Outcome:
        self._hide_refused()
        await in_slices(self._feed.drain(self._gating, now))
        under_way = {one.after.uid: _nodes(one.release) for one in self._going.values()}
        bookings = {**self._book.current(now), **under_way}
        return await in_slices(self._gating.decide(now, bookings))

    def _hide_refused(self) -> None:
        """Leave out the pods that could not be released a moment ago: they must not keep the room from others."""
        waiting = {key: self._state.pods.get(_pod_of(key)) for key in self.work.waiting() if _is_release(key)}
        refused = {pod.key: key for key, pod in waiting.items() if pod is not None and pod.gated}
        for pod in refused.keys() ^ self._refused.keys():
            self._feed.touch(pod)
        self._refused = refused

    def _seen(self, key: str, pod: PodView | None) -> PodView | None:
        """Return what a pod is to be taken for: a release under way counts as done, lest its room be given away."""
        going = self._going.get(key)
        if going is not None:
            decided_on = going.release.pod
            if pod is not None and pod.uid == decided_on.uid and (going.begun or pod == decided_on):
                return going.after
            # It changed before its turn came.
            self._give_up(going)
        return None if key in self._refused and pod is not None and pod.gated else pod

    def _look_at(self, old: PodView | None, new: PodView | None) -> None:
        """Take a change of a pod: whether it has a node, or none is found for it."""
        if old is not None and (new is None or new.uid != old.uid):
            self._unplaced.pop(old.key, None)
            self._book.forget(old.uid)
        if new is not None and new.node:
            self._book.forget(new.uid)
        if new is not None and is_refused(new):
            self._unplaced[new.key] = new
        elif new is not None:
            self._unplaced.pop(new.key, None)

    def _promise(self, release: Release) -> None:
        """Let a pod go as soon as its turn comes; until then it counts as gone."""
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
            # Its turn came late, and not all is true any more of what was decided on.
            self._give_up(going)
            self.work.wake()
            return
        going.begun = True
        # Before it is written: should the answer get lost, the pod may be on its way.
        self._book.note(pod.uid, _nodes(release), self._clock())
        try:
            if release.nominated:
                await self._nominate(pod, release.nominated)
            released = await self._patch(pod, release_patch(release, self._clock()))
        finally:
            self._give_up(going)
        if released:
            log.info("released pod %s: %s", pod.key, release.sentence)
            self._tell(pod, release.reason, release.sentence)

    async def _nominate(self, pod: PodView, node: str) -> None:
        """Have the scheduler try this node before all others. While the gate is on: it tries as soon as that is off.

        Without it the preference is there still: the pod is not held for it.
        """
        body: Object = {"metadata": {"uid": pod.uid} if pod.uid else {}, "status": {"nominatedNodeName": node}}
        try:
            await self._writer.merge(PODS, pod.name, pod.namespace, body, subresource="status")
        except (NotFound, Conflict):
            return  # it is gone, of which its release tells
        except (Forbidden, Invalid) as error:
            log.warning("node %s could not be nominated for pod %s: %s", node, pod.key, error)

    def _is_up(self, release: Release) -> bool:
        """Tell whether the node on which a pod is booked is there still: its turn may come late."""
        node = self._state.nodes.get(release.nodes[0].node) if release.nodes else None
        leaving = node is not None and self._state.leaving.reason(node)
        return not release.nodes or (node is not None and node.ready and node.schedulable and not leaving)

    async def _hold(self, key: str) -> float | None:
        """Say why a pod waits, as it was decided last."""
        hold = self._reasons.pop(key, None)
        if hold is None:
            return None
        pod, why = hold.pod, hold.why
        notice = self._notices.consider(pod.uid, pod.waiting, why, self._clock())
        if notice.event:
            self._tell(pod, Reason.MAX_WAIT_PASSED if why.overdue else why.reason, why.sentence)
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


def _action(step: str, pod: PodView, act: Act) -> KeyedAction:
    # A release waits for no budget: it is what all the rest is for.
    priority = None if step == _RELEASE else WritePriority.TOLD
    return KeyedAction(f"{step} of pod {pod.key}", step, pod.namespace, act, pod.uid, _ref(pod), priority)


def _is_release(key: str) -> bool:
    return key.startswith(f"{_RELEASE} of pod ")


def _pod_of(key: str) -> str:
    return key.partition(" of pod ")[2]


def _nodes(release: Release) -> list[str]:
    return [one.node for one in release.nodes]


def _ref(pod: PodView) -> ObjectRef:
    return ObjectRef("v1", "Pod", pod.name, pod.namespace, pod.uid)


def _after(release: Release) -> PodView:
    """Return the pod as it will be once it is released, as far as others are concerned."""
    return replace(release.pod, gates=release.pod.other_gates)


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
