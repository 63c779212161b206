"""Nodes that a pod may run on at all, worked out once for pods that are alike."""

import json
from collections.abc import Mapping

from stoker_operator.core.affinity import may_run
from stoker_operator.core.views import NodeView, PodView


class FeasibleNodes:
    """Ready, schedulable nodes with a ready sidecar that a pod's selectors, affinity and tolerations allow."""

    def __init__(self, nodes: Mapping[str, NodeView]) -> None:
        self._usable = [node for node in nodes.values() if node.ready and node.schedulable and node.sidecar_ready]
        self._known: dict[str, frozenset[str]] = {}

    def of(self, pod: PodView) -> frozenset[str]:
        """Return names of the nodes."""
        # A thousand workers of one job differ in nothing that matters here: they cost one look over the nodes.
        key = json.dumps([dict(pod.node_selector), pod.affinity, pod.tolerations], sort_keys=True)
        if key not in self._known:
            self._known[key] = frozenset(node.name for node in self._usable if may_run(pod, node))
        return self._known[key]
