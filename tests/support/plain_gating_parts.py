"""The parts of the full pass in tests/support/plain_gating.py: groups, free capacity and feasible nodes."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stoker_operator.core.fitting.affinity import may_run
from stoker_operator.core.fitting.feasible_nodes import silent_until
from stoker_operator.core.views.cluster import LIFECYCLE_TAINTS, NodeView, PodView
from stoker_operator.core.views.resources import Resources


@dataclass(frozen=True)
class PlainGroup:
    """Gated pods that are released together.

    ``present`` is the number of existing members, gated or not. ``size`` is the expected number.
    """

    pods: tuple[PodView, ...]
    present: int
    size: int

    @property
    def other_gates(self) -> tuple[str, ...]:
        """The scheduling gates of other controllers on the pods."""
        return tuple(sorted({gate for pod in self.pods for gate in pod.other_gates}))


def groups_of(pods: Iterable[PodView]) -> list[PlainGroup]:
    """Return groups of all gated pods, oldest first.

    Running and succeeded members count as present, so a replacement of a failed pod is released alone.
    """
    present: Counter[str] = Counter()
    held: dict[str, list[PodView]] = defaultdict(list)
    for pod in pods:
        if not pod.gang and not pod.gated:
            continue
        key = f"{pod.namespace}/gang/{pod.gang}" if pod.gang else f"{pod.key}/alone"
        present[key] += pod.phase != "Failed" and not pod.deleting
        if pod.gated:
            held[key].append(pod)
    groups = [_group(members, present[key]) for key, members in held.items()]
    return sorted(groups, key=lambda group: (group.pods[0].created, group.pods[0].key))


def _group(members: list[PodView], present: int) -> PlainGroup:
    members.sort(key=lambda pod: (pod.created, pod.key))
    return PlainGroup(tuple(members), present, max((pod.gang_size for pod in members), default=0))


class PlainCapacity:
    """The free capacity of each node. ``take`` books a pod. It lives for one pass of the gating.

    ``bookings`` has the possible nodes of each released pod without a node, by the pod's UID.
    """

    def __init__(
        self, nodes: Mapping[str, NodeView], pods: Iterable[PodView], bookings: Mapping[str, Sequence[str]]
    ) -> None:
        self._free = {name: node.allocatable for name, node in nodes.items()}
        on_their_way: list[PodView] = []
        for pod in pods:
            if pod.finished:
                continue
            if pod.node in self._free:
                self._book(pod.node, pod.requests)
            elif not pod.node and pod.uid in bookings and not pod.gated:
                on_their_way.append(pod)
        self._unbooked = dict(self._free)
        for pod in on_their_way:
            self.take(pod, bookings[pod.uid])

    def fits(self, pod: PodView, node: str) -> bool:
        """Return True if the node has room for the pod now."""
        return node in self._free and self._free[node].covers(pod.requests)

    def fits_unbooked(self, pod: PodView, node: str) -> bool:
        """Return True if the node has room when only bound pods count."""
        return node in self._unbooked and self._unbooked[node].covers(pod.requests)

    def take(self, pod: PodView, nodes: Sequence[str]) -> str | None:
        """Book ``pod`` on the first of ``nodes`` with room. Return None without one."""
        chosen = next((node for node in nodes if self.fits(pod, node)), None)
        if chosen is not None:
            self._book(chosen, pod.requests)
        return chosen

    def give_back(self, pod: PodView, node: str) -> None:
        """Undo a ``take``."""
        self._free[node] = self._free[node].plus(pod.requests)

    def _book(self, node: str, requests: Resources) -> None:
        self._free[node] = self._free[node].minus(requests)


class PlainFeasibleNodes:
    """Ready, schedulable nodes with a ready sidecar that a pod's selectors, affinity and tolerations allow.

    With ``silent_at``, in seconds since the epoch, return the nodes that became silent recently.
    """

    def __init__(self, nodes: Mapping[str, NodeView], silent_at: float | None = None) -> None:
        usable = (node for node in nodes.values() if node.takes_new and _answers(node, silent_at))
        # Taints caused by the silence of a node do not exclude it from a wait for that node.
        self._usable = list(usable if silent_at is None else map(_without_lifecycle_taints, usable))
        self._known: dict[str, frozenset[str]] = {}

    def of(self, pod: PodView) -> frozenset[str]:
        """Return names of the nodes."""
        # A thousand workers of one job are equal here: they need one pass over the nodes.
        key = json.dumps([dict(pod.node_selector), pod.affinity, pod.tolerations], sort_keys=True)
        if key not in self._known:
            self._known[key] = frozenset(node.name for node in self._usable if may_run(pod, node))
        return self._known[key]


def _answers(node: NodeView, silent_at: float | None) -> bool:
    if silent_at is None:
        return node.ready and node.sidecar_ready
    until = silent_until(node)
    return until is not None and silent_at < until


def _without_lifecycle_taints(node: NodeView) -> NodeView:
    return replace(node, taints=tuple(taint for taint in node.taints if taint.key not in LIFECYCLE_TAINTS))
