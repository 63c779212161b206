"""Removes the start-up taint from nodes whose sidecar serves. Until then pods that need data stay off the node."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from stoker_api import names
from stoker_kube.errors import NotFound
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_kube.resources import NODES
from stoker_operator.core.views.cluster import NodeView, Taint
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.loops.keyed_work import KeyedWork
from stoker_operator.reconcilers.loops.turns import KeyedAction
from stoker_operator.writes.writer import Writer


class StartupTaints:
    """Removes ``stoker.dev/agent-not-ready`` (any effect) once. The provisioner of the nodes sets this taint."""

    def __init__(self, writer: Writer, state: ClusterState, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self.work: Final = KeyedWork("nodes", clock, events, budget=writer.budget)

    async def reconcile(self) -> float | None:
        """Run one pass; return the seconds until time alone requires the next."""
        return self.work.take(self._actions())

    def _actions(self) -> Iterator[KeyedAction]:
        for node in self._state.snapshot().nodes.values():
            if node.sidecar_ready and has_startup_taint(node):
                about = ObjectRef("v1", "Node", node.name, uid=node.uid)
                act = partial(self._take_off, node)
                yield KeyedAction(f"taint of Node {node.name}", "taint", node.name, act, node.taints, about)

    async def _take_off(self, node: NodeView) -> None:
        try:
            await self._writer.edit(NODES, node.name, "", without_startup_taint(node.taints))
        except NotFound:
            return  # the node is gone


def has_startup_taint(node: NodeView) -> bool:
    """Return True if the node has the start-up taint."""
    return any(taint.key == names.TAINT_AGENT_NOT_READY for taint in node.taints)


def without_startup_taint(taints: tuple[Taint, ...]) -> list[dict[str, Any]]:
    """Return the JSON patch that removes the taint. The API server refuses it if the taints have changed."""
    operations: list[dict[str, Any]] = []
    for index in reversed(range(len(taints))):  # from the last on: a removal shifts the later indexes
        if taints[index].key == names.TAINT_AGENT_NOT_READY:
            path = f"/spec/taints/{index}"
            operations.append({"op": "test", "path": f"{path}/key", "value": names.TAINT_AGENT_NOT_READY})
            operations.append({"op": "remove", "path": path})
    return operations
