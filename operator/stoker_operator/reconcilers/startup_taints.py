"""Takes the start-up taint off nodes whose sidecar serves: until then nothing that needs data is bound to them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from stoker_api import names
from stoker_kube.errors import NotFound
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_kube.resources import NODES
from stoker_operator.core.views import NodeView, Taint
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.keyed_work import KeyedWork
from stoker_operator.reconcilers.turns import KeyedAction
from stoker_operator.writer import Writer


class StartupTaints:
    """Whoever makes nodes sets the taint (``stoker.dev/agent-not-ready``, of any effect); this takes it off, once."""

    def __init__(self, writer: Writer, state: ClusterState, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self.work: Final = KeyedWork("nodes", clock, events, budget=writer.budget)

    async def reconcile(self) -> float | None:
        """Run one pass; gives the seconds after which time alone calls for another."""
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
            return  # it is gone, and its taint with it


def has_startup_taint(node: NodeView) -> bool:
    """Tell whether the node waits for its sidecar."""
    return any(taint.key == names.TAINT_AGENT_NOT_READY for taint in node.taints)


def without_startup_taint(taints: tuple[Taint, ...]) -> list[dict[str, Any]]:
    """Return the JSON patch; it is refused as a whole when the taints are not any more what they were."""
    operations: list[dict[str, Any]] = []
    for index in reversed(range(len(taints))):  # from the last on: what is removed moves what comes after it
        if taints[index].key == names.TAINT_AGENT_NOT_READY:
            path = f"/spec/taints/{index}"
            operations.append({"op": "test", "path": f"{path}/key", "value": names.TAINT_AGENT_NOT_READY})
            operations.append({"op": "remove", "path": path})
    return operations
