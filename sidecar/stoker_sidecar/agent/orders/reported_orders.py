"""The orders that pods report. An order counts once it is stable; a pod may change its order once a minute."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from stoker_orders.sampling_plan import AT_FIRST, SamplingPlan
from stoker_sidecar.agent.orders.reported_plans import ReportedOrder, parse_reported_sampling, plan_of

# Seconds until all ranks of a pod have reported, and seconds between two orders of a pod: each one is computed.
SETTLED_SECONDS, CHANGE_SECONDS = 2.0, 60.0


@dataclass
class _PodOrder:
    """Followed order (``taken``, since ``taken_at``) and last report (``said``, since ``said_at``); seconds."""

    said: ReportedOrder
    said_at: float
    taken: ReportedOrder | None = None
    taken_at: float = float("-inf")


class ReportedOrders:
    """Reported orders of a node's pods. Not thread-safe. ``clock``: seconds.

    It calls ``on_change`` when the set of reporting pods changes.
    """

    def __init__(self, on_change: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._on_change = on_change
        self._clock = clock
        self._pods: dict[str, _PodOrder] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def take(self, said: Mapping[str, ReportedOrder]) -> None:
        """Take the last reports of all pods. A pod that is not among them reports no order."""
        now = self._clock()
        pods = {uid: self._pods.get(uid) or _PodOrder(order, now) for uid, order in said.items()}
        for uid, pod in pods.items():
            if not _alike(said[uid], pod.said):
                pod.said_at = now
            pod.said = said[uid]
        came_or_went = self._pods.keys() != pods.keys()
        self._pods = pods
        if came_or_went:  # the caller polls for changed reports of known pods
            self._on_change()

    def known(self) -> dict[str, ReportedOrder]:
        """Return the orders to follow now, by pod UID."""
        now = self._clock()
        for pod in self._pods.values():
            same = pod.taken is not None and _alike(pod.taken, pod.said)
            if same or (now - pod.said_at >= SETTLED_SECONDS and now - pod.taken_at >= CHANGE_SECONDS):
                pod.taken, pod.taken_at = pod.said, pod.taken_at if same else now
        return {uid: pod.taken for uid, pod in self._pods.items() if pod.taken is not None}


def _alike(one: ReportedOrder, other: ReportedOrder) -> bool:
    """Return True if two reports have one order; their starts may differ."""
    return one == other or _order(one) == _order(other)


@lru_cache(maxsize=256)
def _order(said: ReportedOrder) -> SamplingPlan | ReportedOrder:
    try:
        return replace(plan_of(parse_reported_sampling(said.text), said), start=AT_FIRST)
    except ValueError:
        return said
