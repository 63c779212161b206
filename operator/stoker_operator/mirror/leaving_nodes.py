"""Which nodes are about to go: those that a taint says it of, and those that are cordoned and being drained."""

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Final

from stoker_api import names
from stoker_api.nodecache import NodeCache
from stoker_operator.core.views import NodeView, PodView

DRAINED = "it is cordoned and its pods are evicted"


class LeavingNodes:
    """What says of nodes that they will go, as far as it has to be remembered.

    A node that is cordoned says nothing of why. That its pods are evicted does; they end soon, so it is remembered
    until the node takes pods again, and its NodeCache says it for the next leader.
    """

    def __init__(self, taints: Collection[str]) -> None:
        """Begin with nothing; ``taints``: each ``key`` or ``key=value``."""
        self._taints: Final = frozenset({*taints, names.TAINT_LEAVING})
        self._nodes: Final[dict[str, NodeView]] = {}
        self._evicted: Final[defaultdict[str, set[str]]] = defaultdict(set)  # keys of pods by node
        self._said: Final[set[str]] = set()  # nodes whose NodeCache says it
        self._drained: Final[set[str]] = set()
        self._listeners: Final[list[Callable[[str], None]]] = []
        self.changes = 0  # so far, of what is remembered

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call ``listener(node)`` when something else is remembered of a node."""
        self._listeners.append(listener)

    def reason(self, node: NodeView) -> str:
        """Say why a node is taken for one that is about to go; empty where it is not."""
        for taint in node.taints:
            if taint.key in self._taints or f"{taint.key}={taint.value}" in self._taints:
                return f"it has the taint {taint.key}"
        return DRAINED if node.name in self._drained and not node.schedulable else ""

    def note_node(self, old: NodeView | None, new: NodeView | None) -> None:
        """Take over a change of a node."""
        name = new.name if new is not None else old.name if old is not None else ""
        if new is None or (old is not None and old.uid != new.uid):
            self._said.discard(name)  # another one of its name is another node
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
        """Take over a change of a pod."""
        if old is not None and old.evicted and old.node in self._evicted:
            self._evicted[old.node].discard(old.key)
            if not self._evicted[old.node]:
                del self._evicted[old.node]
        if new is not None and new.evicted and new.node and not new.finished:
            self._evicted[new.node].add(new.key)
            self._consider(new.node)

    def note_cache(self, old: NodeCache | None, new: NodeCache | None) -> None:
        """Take over a change of a NodeCache: what an earlier leader found."""
        if new is not None and new.spec.leaving == DRAINED and (old is None or old.spec.leaving != DRAINED):
            self._said.add(new.key)
            self._consider(new.key)

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
