"""Nodes that pods of equal constraints may run on, as sets that follow the nodes."""

from dataclasses import replace
from typing import Final

from stoker_operator.core.affinity import may_run
from stoker_operator.core.node_bits import NodeSets, SetChanges
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


class FeasibleNodes(NodeSets):
    """Nodes that the selectors, affinity and tolerations of a pod, and of all that are like it, allow.

    ``feasible``: those that are ready, schedulable and not about to go, with a ready sidecar; ``silent``: those that
    are silent, and were not for long.
    """

    SETS = ("feasible", "silent")
    feasible: int
    silent: int

    def __init__(self, changes: SetChanges, pod: PodView) -> None:
        super().__init__(changes)
        self._pod: Final = pod
        self._errors: Final[dict[str, Exception]] = {}

    @property
    def error(self) -> Exception | None:
        """What was raised by a node's comparison with the constraints: they make no sense."""
        return next(iter(self._errors.values()), None)

    def put(self, at: int, node: NodeView, now: float) -> None:
        """Take over a node. ``now`` in seconds since the epoch."""
        self.forget(node.name)
        try:
            feasible, silent = self._feasible(node), self._silent(node, now)
        except Exception as error:  # noqa: BLE001 -- the boundary of a pod's constraints
            self._errors[node.name] = error
            feasible = silent = False
        self.mark("feasible", at, feasible)
        self.mark("silent", at, silent)

    def forget(self, name: str) -> None:
        """Forget what was raised by a node."""
        self._errors.pop(name, None)

    def _feasible(self, node: NodeView) -> bool:
        return node.takes_new and node.ready and node.sidecar_ready and may_run(self._pod, node)

    def _silent(self, node: NodeView, now: float) -> bool:
        until = silent_until(node)
        if until is None or now >= until or not node.takes_new:
            return False
        # What keeps pods off a node because it is silent is no reason against waiting for that node.
        taints = tuple(taint for taint in node.taints if taint.key not in LIFECYCLE_TAINTS)
        return may_run(self._pod, replace(node, taints=taints))
