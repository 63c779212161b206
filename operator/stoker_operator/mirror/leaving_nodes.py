"""Finds nodes that are about to leave: nodes with a leaving taint, and cordoned nodes under drain."""

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Final

from stoker_api import names
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.views.cluster import NodeView, PodView

DRAINED = "it is cordoned and its pods are evicted"


class LeavingNodes:
    """The leaving nodes, with the state that this needs.

    A cordon alone gives no reason. Evicted pods show a drain, but they end soon. So the drain is remembered until the
    node becomes schedulable again, and the NodeCache passes it to the next leader.
    """

    def __init__(self, taints: Collection[str]) -> None:
        """Start empty; ``taints``: each ``key`` or ``key=value``."""
        self._taints: Final = frozenset({*taints, names.TAINT_LEAVING})
        self._nodes: Final[dict[str, NodeView]] = {}
        self._evicted: Final[defaultdict[str, set[str]]] = defaultdict(set)  # keys of pods by node
        self._said: Final[set[str]] = set()  # nodes whose NodeCache records a drain
        self._drained: Final[set[str]] = set()
        self._listeners: Final[list[Callable[[str], None]]] = []
        self.changes = 0  # number of changes of the drained nodes so far

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call ``listener(node)`` when a node starts or stops to count as drained."""
        self._listeners.append(listener)

    def reason(self, node: NodeView) -> str:
        """Return the reason why the node is about to leave; empty if it is not."""
        for taint in node.taints:
            if taint.key in self._taints or f"{taint.key}={taint.value}" in self._taints:
                return f"it has the taint {taint.key}"
        return DRAINED if node.name in self._drained and not node.schedulable else ""

    def note_node(self, old: NodeView | None, new: NodeView | None) -> None:
        """Take a change of a node."""
        name = new.name if new is not None else old.name if old is not None else ""
        if new is None or (old is not None and old.uid != new.uid):
            self._said.discard(name)  # a new node reuses the name
            self._set(name, drained=False)
        if new is None:
            self._nodes.pop(name, None)
            return
        self._nodes[name] = new
        if new.schedulable:
            self._said.discard(name)
            self._set(name, drained=False)
        else:
            self._consider(name)

    def note_pod(self, old: PodView | None, new: PodView | None) -> None:
        """Take a change of a pod."""
        if old is not None and old.evicted and old.node in self._evicted:
            self._evicted[old.node].discard(old.key)
            if not self._evicted[old.node]:
                del self._evicted[old.node]
        if new is not None and new.evicted and new.node and not new.finished:
            self._evicted[new.node].add(new.key)
            self._consider(new.node)

    def note_cache(self, old: NodeCache | None, new: NodeCache | None) -> None:
        """Take a change of a NodeCache: an earlier leader may have recorded a drain.

        The response to a write may arrive after the end of the drain, so the next write takes it back.
        """
        if new is None or (old is not None and old.spec.leaving == new.spec.leaving):
            return
        if new.spec.leaving == DRAINED:
            self._said.add(new.key)
            self._consider(new.key)
        else:
            self._said.discard(new.key)

    def _consider(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is not None and not node.schedulable and (name in self._said or name in self._evicted):
            self._set(name, drained=True)

    def _set(self, name: str, *, drained: bool) -> None:
        if (name in self._drained) == drained:
            return
        if drained:
            self._drained.add(name)
        else:
            self._drained.discard(name)
        self.changes += 1
        for listener in self._listeners:
            listener(name)
