"""The nodes of a selection by their domains, such as zones, kept as nodes change."""

from collections.abc import Iterable, Mapping
from typing import Final

from stoker_operator.core.topology_spreading import NO_DOMAIN
from stoker_operator.core.views import NodeView


class NodeDomains:
    """Nodes that may be given something new, by the value of one label."""

    def __init__(self, key: str, nodes: Iterable[NodeView]) -> None:
        self._key: Final = key
        self._domain_of: Final[dict[str, str]] = {}
        self._nodes: Final[dict[str, set[str]]] = {}
        for node in nodes:
            self.put(node.name, node)

    @property
    def nodes(self) -> Mapping[str, set[str]]:
        """The names of the nodes, by domain; no domain is empty."""
        return self._nodes

    def put(self, name: str, node: NodeView | None) -> bool:
        """Take over a node, None when it may be given nothing new; True when it is in another domain than before."""
        before = self._domain_of.pop(name, None)
        after = None if node is None else domain_of(node, self._key)
        if before is not None and before != after:
            self._nodes[before].discard(name)
            if not self._nodes[before]:
                del self._nodes[before]
        if after is not None:
            self._domain_of[name] = after
            self._nodes.setdefault(after, set()).add(name)
        return before != after


def domain_of(node: NodeView | None, key: str) -> str:
    """Return the domain of a node; NO_DOMAIN where it has no such label."""
    return node.labels.get(key, NO_DOMAIN) if node is not None else NO_DOMAIN
