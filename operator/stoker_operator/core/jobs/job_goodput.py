"""The goodput of a TrainingJob, collected from the nodes of its pods as they end. Pure.

A node reports on a pod when its last volume is unmounted, at about the time when the pod's object is deleted. So the
status stores awaited and counted pods, and survives both the pods and the operator.
"""

from collections.abc import Iterable, Mapping, Sequence

from stoker_api.goodput import MOST_AWAITED, AwaitedPod, EndedPod, Goodput, goodput, short_uid
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.views.cluster import PodView

# Seconds to wait for nodes after the end: a busy kubelet unmounts volumes within a few seconds.
GRACE = 60.0


def ended_pods(
    caches: Mapping[str, NodeCache], pods: Iterable[PodView], before: Goodput | None
) -> tuple[EndedPod, ...]:
    """Return the final reports on these pods and on awaited pods, each from its own node."""
    if before is not None and before.complete:
        return ()
    counted = frozenset(before.counted if before else ())
    wanted = {pod.uid: pod.node for pod in pods if pod.uid and pod.node and short_uid(pod.uid) not in counted}
    wanted |= {pod.uid: pod.node for pod in (before.awaited if before else ())}
    told = ((uid, caches[node].status.ended) for uid, node in wanted.items() if node in caches)
    return tuple(row for uid, rows in told for row in rows if row.uid == uid)


def job_goodput(
    before: Goodput | None,
    pods: Sequence[PodView],
    held_seconds: Iterable[float],
    ended: Iterable[EndedPod],
    finished_at: float | None,
    now: float,
) -> Goodput | None:
    """Return the goodput so far. None: nothing is known.

    ``pods``: all pods of the job, of any age. ``held_seconds``: how long they were held. ``finished_at``, ``now``:
    seconds since the epoch. ``finished_at`` is None while the job runs.
    """
    if before is not None and before.complete:
        return before
    known = goodput(before, ended, held_seconds)
    counted = frozenset(known.counted)
    uncounted = [pod for pod in pods if pod.node and short_uid(pod.uid) not in counted]
    awaited = _awaited(before, uncounted, known)
    missing = len({pod.uid for pod in awaited} | {pod.uid for pod in uncounted})
    complete = finished_at is not None and (not missing or now >= finished_at + GRACE)
    missed = missing if complete else 0
    if known == Goodput(message=known.message) and not awaited and not missed:
        return None
    shown = known.model_copy(
        update={"awaited": () if complete else awaited[:MOST_AWAITED], "complete": complete, "missed": missed}
    )
    return goodput(shown, ())  # with the current message


def goodput_due_in(known: Goodput | None, finished_at: float | None, now: float) -> float | None:
    """Return the seconds until the wait for nodes ends. None: there is no wait."""
    if known is None or known.complete or finished_at is None:
        return None
    return max(0.0, finished_at + GRACE - now)


def _awaited(before: Goodput | None, uncounted: Iterable[PodView], known: Goodput) -> tuple[AwaitedPod, ...]:
    """Return the pods that ended or terminate, and that no node reported yet."""
    old = {pod.uid: pod for pod in (before.awaited if before else ()) if not known.has(pod.uid)}
    leaving = (pod for pod in uncounted if pod.deleting or pod.finished)
    return tuple((old | {pod.uid: AwaitedPod(uid=pod.uid, node=pod.node) for pod in leaving}).values())
