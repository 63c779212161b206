"""What a TrainingJob made of its time: gathered from the nodes of its pods as these end. Pure.

A node tells of a pod when its last volume is gone, which is about when the pod's object goes: so which pods are
awaited, and which are counted, is in the status, and outlives both the pods and the operator.
"""

from collections.abc import Iterable, Mapping, Sequence

from stoker_api.goodput import MOST_AWAITED, AwaitedPod, EndedPod, Goodput, goodput, short_uid
from stoker_api.nodecache import NodeCache
from stoker_operator.core.views import PodView

# Seconds after its end for which nodes are waited for: a busy kubelet takes volumes off within some seconds.
GRACE = 60.0


def ended_pods(
    caches: Mapping[str, NodeCache], pods: Iterable[PodView], before: Goodput | None
) -> tuple[EndedPod, ...]:
    """Return what the nodes of these pods, and of those that are awaited, tell of them; each by its own node's word."""
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
    """Return what is known by now; None: nothing.

    ``pods``: all of the job, of any age; ``held_seconds``: for how long they were held. ``finished_at``, ``now``:
    seconds since the epoch; None: it goes on.
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
    return goodput(shown, ())  # with the sentence that is right now


def goodput_due_in(known: Goodput | None, finished_at: float | None, now: float) -> float | None:
    """Return the seconds until nodes are waited for no more; None: they are not."""
    if known is None or known.complete or finished_at is None:
        return None
    return max(0.0, finished_at + GRACE - now)


def _awaited(before: Goodput | None, uncounted: Iterable[PodView], known: Goodput) -> tuple[AwaitedPod, ...]:
    """Return the pods that have ended, or are about to, and of which no node has told."""
    old = {pod.uid: pod for pod in (before.awaited if before else ()) if not known.has(pod.uid)}
    leaving = (pod for pod in uncounted if pod.deleting or pod.finished)
    return tuple((old | {pod.uid: AwaitedPod(uid=pod.uid, node=pod.node) for pod in leaving}).values())
