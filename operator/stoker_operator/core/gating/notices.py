"""Decide when to write a held pod's reason: an annotation for new numbers, an event for new facts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stoker_operator.core.fitting.affinity import required_terms
from stoker_operator.core.gating.explain import Explanation
from stoker_operator.core.views.cluster import PodView

# Seconds. Room from preemption, or from a pod that ends, comes within these.
STUCK_SECONDS = 60.0
_SHOWN = 600  # characters of the scheduler's message, which lists each reason with a count of nodes


@dataclass(frozen=True)
class StuckPod:
    """A released pod that no node takes, and the message for its owner."""

    pod: PodView
    sentence: str


def find_stuck(pods: Iterable[PodView], now: float) -> tuple[tuple[StuckPod, ...], float | None]:
    """Return the stuck pods, and the seconds until the next may be stuck. None: no pod may become stuck."""
    waiting = [pod for pod in pods if is_refused(pod)]
    stuck = tuple(StuckPod(pod, _sentence(pod)) for pod in waiting if _due(pod) <= now)
    return stuck, min((_due(pod) - now for pod in waiting if _due(pod) > now), default=None)


def is_refused(pod: PodView) -> bool:
    """Return True if the scheduler finds no node for a released pod."""
    return bool(pod.unschedulable and pod.released) and not (pod.node or pod.gated or pod.finished or pod.deleting)


def _due(pod: PodView) -> float:
    return pod.unschedulable_since + STUCK_SECONDS


def _sentence(pod: PodView) -> str:
    said = f"it was released, and the scheduler finds no node for it: {pod.unschedulable[:_SHOWN]}"
    if required_terms(pod.affinity) is None:
        return said
    return (
        f"{said}. Its required node affinity cannot be changed: make room on the nodes that it names, or "
        "delete the pod, so that its controller creates a new one for other nodes"
    )


# Seconds. The scheduler places a pod within one, if it can. A pod that cannot be placed must not block the rest.
BOOKED_SECONDS = 60.0


@dataclass(frozen=True)
class _Booking:
    nodes: tuple[str, ...]
    until: float


@dataclass
class ReleaseBook:
    """Pods that this process released, by UID. ``now``: seconds since the epoch.

    The annotation on a released pod says the same, but anyone may write that.
    """

    _bookings: dict[str, _Booking] = field(default_factory=dict)

    def note(self, uid: str, nodes: Sequence[str], now: float) -> None:
        """Record that a pod is released to one of ``nodes``, best first."""
        self._bookings[uid] = _Booking(tuple(nodes), now + BOOKED_SECONDS)

    def forget(self, uid: str) -> None:
        """Remove a pod that has its node or is deleted. Its use is known from other sources."""
        self._bookings.pop(uid, None)

    def current(self, now: float) -> Mapping[str, tuple[str, ...]]:
        """Return the nodes of each valid booking by pod UID. Remove expired bookings."""
        self._bookings = {uid: one for uid, one in self._bookings.items() if one.until > now}
        return {uid: one.nodes for uid, one in self._bookings.items()}


# Minimum seconds between two writes of a pod's annotation while only numbers change.
LEAST_INTERVAL = 10.0


@dataclass(frozen=True)
class HoldNotice:
    """What to write now. ``again``: seconds until the next write, or None."""

    annotate: bool = False
    event: bool = False
    again: float | None = None


@dataclass
class _Written:
    why: Explanation
    at: float
    failed: bool = False


class NoticeBook:
    """The last notice for each held pod. ``now``: seconds."""

    def __init__(self) -> None:
        self._written: dict[str, _Written] = {}

    def consider(self, uid: str, annotation: str, why: Explanation, now: float) -> HoldNotice:
        """Return what to write about a pod with the current ``annotation``. It then counts as written."""
        last = self._written.get(uid)
        if last is None:
            self._written[uid] = _Written(why, now)
            # An earlier process of the operator announced a pod that already has an annotation.
            return HoldNotice(annotate=annotation != why.sentence, event=not annotation)
        if last.why.detail_key == why.detail_key:
            failed, last.failed = last.failed, False
            return HoldNotice(annotate=failed)
        wait = LEAST_INTERVAL - (now - last.at)
        if last.why.coarse_key == why.coarse_key and wait > 0:
            return HoldNotice(again=wait)
        event = last.why.coarse_key != why.coarse_key
        self._written[uid] = _Written(why, now)
        return HoldNotice(annotate=True, event=event)

    def failed(self, uid: str) -> None:
        """Mark the last notice as unwritten. Its event stands."""
        if uid in self._written:
            self._written[uid].failed = True

    def forget(self, uid: str) -> None:
        """Forget a pod that is no longer held."""
        self._written.pop(uid, None)
