"""The orders that pods report: believed when they stay for a moment, and another one now and then only."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from stoker_api.reported_sampling import parse_reported_sampling
from stoker_orders.sampling_plan import AT_FIRST, SamplingPlan
from stoker_sidecar.agent.core.reported_plans import ReportedOrder, plan_of

# Seconds in which all ranks of a pod have said theirs; and between two orders of a pod, since each is computed anew.
SETTLED_SECONDS, CHANGE_SECONDS = 2.0, 60.0


@dataclass
class _PodOrder:
    """What is followed (``taken``, since ``taken_at``) and the last word (``said``, since ``said_at``), in seconds."""

    said: ReportedOrder
    said_at: float
    taken: ReportedOrder | None = None
    taken_at: float = float("-inf")


class ReportedOrders:
    """What the pods of a node say of their orders. Not for threads. ``clock`` counts seconds.

    ``on_change`` is called when other pods say one.
    """

    def __init__(self, on_change: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._on_change = on_change
        self._clock = clock
        self._pods: dict[str, _PodOrder] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def take(self, said: Mapping[str, ReportedOrder]) -> None:
        """Take the last word of all pods that have one; who is not among them says nothing any more."""
        now = self._clock()
        pods = {uid: self._pods.get(uid) or _PodOrder(order, now) for uid, order in said.items()}
        for uid, pod in pods.items():
            if not _alike(said[uid], pod.said):
                pod.said_at = now
            pod.said = said[uid]
        came_or_went = self._pods.keys() != pods.keys()
        self._pods = pods
        if came_or_went:  # who looks for changes of those that there are does so at its own pace
            self._on_change()

    def known(self) -> dict[str, ReportedOrder]:
        """Return what is to be followed now, by the UID of the pod."""
        now = self._clock()
        for pod in self._pods.values():
            same = pod.taken is not None and _alike(pod.taken, pod.said)
            if same or (now - pod.said_at >= SETTLED_SECONDS and now - pod.taken_at >= CHANGE_SECONDS):
                pod.taken, pod.taken_at = pod.said, pod.taken_at if same else now
        return {uid: pod.taken for uid, pod in self._pods.items() if pod.taken is not None}


def _alike(one: ReportedOrder, other: ReportedOrder) -> bool:
    """Tell whether two are one order, perhaps from another place on."""
    return one == other or _order(one) == _order(other)


@lru_cache(maxsize=256)
def _order(said: ReportedOrder) -> SamplingPlan | ReportedOrder:
    try:
        return replace(plan_of(parse_reported_sampling(said.text), said), start=AT_FIRST)
    except ValueError:
        return said
