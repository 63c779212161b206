"""The room on nodes: the nodes of a rule, and the free bytes of each as Datasets take turns."""

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from stoker_api.datasets.dataset import Dataset
from stoker_operator.core.placement.node_rules import NodeRule
from stoker_operator.core.placement.topology_spreading import NodeDomains
from stoker_operator.core.views.cluster import ClusterView, NodeView
from stoker_operator.core.views.node_states import alive


class NodeRoom(Protocol):
    """The room on nodes, in bytes."""

    def fits(self, node: str, need: int) -> bool:
        """Return True if a node can take ``need`` bytes by dropping its idle data."""

    def charge(self, node: str, need: int) -> None:
        """Promise ``need`` bytes on a node to a Dataset."""


class KeepRoom(NodeRoom, Protocol):
    """The room in one Dataset's turn."""

    def fits_elsewhere(self, nodes: Collection[str], node: str, need: int) -> bool:
        """Return True if any of ``nodes`` except ``node`` can."""

    def count_idle(self, node: str, freed: int) -> None:
        """Record the bytes that dropping the Dataset's idle data frees."""


class FillRoom(NodeRoom, Protocol):
    """The room for new replicas, after every Dataset kept its data."""

    def free(self, node: str) -> int:
        """Return a node's free bytes. Negative: it has more promises than room."""

    def given(self, node: str) -> int:
        """Return the number of Datasets placed on a node so far."""


class Selection:
    """The nodes of one rule. ``version`` counts changes that may affect Datasets on other nodes too."""

    def __init__(self, view: ClusterView, rule: NodeRule, now: float) -> None:
        self.rule: Final = rule
        self.everywhere: Mapping[str, NodeView] = view.nodes
        self.nodes: Final[dict[str, NodeView]] = {}
        self.fresh: Final[set[str]] = set()  # nodes that may get a new Dataset
        self.counted: Final[set[str]] = set()  # base of a percentage: without lost and draining nodes
        self.eligible = 0  # ready nodes with a NodeCache
        self.version = 0
        self._ready: Final[set[str]] = set()
        self._domains: Final[dict[str, NodeDomains]] = {}  # by label key
        self.update(view, view.nodes, now)

    def update(self, view: ClusterView, changed: Collection[str], now: float) -> None:
        """Update these nodes and their NodeCaches. ``now``: seconds since the epoch."""
        self.everywhere = view.nodes
        before = self.version
        for name in changed:
            self._update(name, view, now)
        self.eligible = len(self._ready)
        self.version = before + 1 if self.version != before else before

    def domains(self, key: str) -> Mapping[str, Collection[str]]:
        """Return the nodes that may get a new Dataset, by the values of a label."""
        if key not in self._domains:
            self._domains[key] = NodeDomains(key, (self.nodes[name] for name in self.fresh))
        return self._domains[key].nodes

    def _update(self, name: str, view: ClusterView, now: float) -> None:
        node = view.nodes.get(name)
        if node is None or not self.rule.selects(node):
            self.nodes.pop(name, None)
            ready = fresh = counted = False
        else:
            self.nodes[name] = node
            there = name in view.node_caches
            ready = node.ready and there
            fresh = ready and node.takes_new and node.sidecar_ready and self.rule.takes(node)
            counted = there and alive(node, now) and not node.leaving
        self._note(self._ready, name, ready)
        self._note(self.fresh, name, fresh)
        self._note(self.counted, name, counted)
        for domains in self._domains.values():
            if domains.put(name, node if fresh else None):
                self.version += 1

    def _note(self, where: set[str], name: str, there: bool) -> None:
        if (name in where) == there:
            return
        self.version += 1
        if there:
            where.add(name)
        else:
            where.discard(name)


class Selections:
    """The selections of one view. Thousands of Datasets share a few rules. ``now``: seconds since the epoch."""

    def __init__(self, view: ClusterView, now: float) -> None:
        self._view = view
        self._now = now
        self._known: Final[dict[NodeRule, Selection]] = {}

    def of(self, dataset: Dataset) -> Selection:
        """Return the nodes that the Dataset may use."""
        rule = NodeRule.of(dataset.spec.cache)
        if rule not in self._known:
            self._known[rule] = Selection(self._view, rule, self._now)
        return self._known[rule]

    def update(self, view: ClusterView, changed: Collection[str], now: float) -> bool:
        """Update to a view in which these nodes or their NodeCaches changed.

        Return True if the version of a selection changed.
        """
        self._view, self._now, moved = view, now, False
        for selection in self._known.values():
            before = selection.version
            selection.update(view, changed, now)
            moved = moved or selection.version != before
        return moved

    def keep_only(self, used: Collection[Selection]) -> None:
        """Remove rules that no Dataset uses."""
        staying = {id(one) for one in used}
        for key in [key for key, one in self._known.items() if id(one) not in staying]:
            del self._known[key]
