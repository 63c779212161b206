"""Nodes that a pod may run on at all, worked out once for pods that are alike."""

import json
from collections.abc import Mapping
from dataclasses import replace

from stoker_operator.core.affinity import may_run
from stoker_operator.core.views import LIFECYCLE_TAINTS, NodeView, PodView

# Seconds for which a node that fell silent, or whose sidecar did, is still the one that a held pod is to go to: all
# nodes were Unknown for 58 s after an API server had been away for 70, and came back one after the other.
SILENCE = 90.0


def silent_until(node: NodeView) -> float | None:
    """Return when a node that is silent is given up, in seconds since the epoch; None when it is not silent at all.

    One that is ready again is silent until the taints of its silence are gone: no pod can go there before.
    """
    if not node.ready:
        return node.not_ready_since + SILENCE
    if not node.sidecar_ready:
        return node.sidecar_silent_since + SILENCE
    tainted = any(taint.key in LIFECYCLE_TAINTS for taint in node.taints)
    return node.ready_since + SILENCE if tainted else None


class FeasibleNodes:
    """Ready, schedulable nodes with a ready sidecar that a pod's selectors, affinity and tolerations allow.

    With ``silent_at``, seconds since the epoch: the nodes that are silent then, and were not for long.
    """

    def __init__(self, nodes: Mapping[str, NodeView], silent_at: float | None = None) -> None:
        usable = (node for node in nodes.values() if node.schedulable and _answers(node, silent_at))
        # What keeps pods off a node because it is silent is no reason against waiting for that node.
        self._usable = list(usable if silent_at is None else map(_without_lifecycle_taints, usable))
        self._known: dict[str, frozenset[str]] = {}

    def of(self, pod: PodView) -> frozenset[str]:
        """Return names of the nodes."""
        # A thousand workers of one job differ in nothing that matters here: they cost one look over the nodes.
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
