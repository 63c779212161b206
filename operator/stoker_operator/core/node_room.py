"""The room on nodes: which nodes a rule means, and the bytes that each can still take as Datasets take turns."""

from collections import Counter
from collections.abc import Collection, Generator, Mapping
from typing import Final, Protocol

from stoker_api.dataset import Dataset
from stoker_operator.core.node_domains import NodeDomains
from stoker_operator.core.node_rules import NodeRule
from stoker_operator.core.node_states import alive
from stoker_operator.core.views import ClusterView, NodeView


class KeepRoom(Protocol):
    """What a Dataset's turn asks of the room on nodes, and does to it. Bytes everywhere."""

    def fits(self, node: str, need: int) -> bool:
        """Tell whether a node can take so much, if it gives up what is idle there."""

    def fits_elsewhere(self, nodes: Collection[str], node: str, need: int) -> bool:
        """Tell whether any of ``nodes`` but ``node`` can."""

    def charge(self, node: str, need: int) -> None:
        """Promise so much on a node to a Dataset."""

    def count_idle(self, node: str, freed: int) -> None:
        """Note that dropping what is idle there would give so much back; less than nothing: it was dropped."""


class FillRoom(KeepRoom, Protocol):
    """The same once every Dataset kept what it has: for new replicas, and for what has to go."""

    def free(self, node: str) -> int:
        """Return what a node can still take as it is; less than nothing where it was promised more."""

    def given(self, node: str) -> int:
        """Count the Datasets that were given to a node so far."""

    def drop(self, node: str, freed: int) -> None:
        """Give back the room of what is idle there."""


class Ledger:
    """Bytes that each node can still take, as one pass over all Datasets hands them out."""

    def __init__(self, view: ClusterView) -> None:
        self._room: Final = {name: cache.status.available_bytes for name, cache in view.node_caches.items()}
        self._idle: Final[Counter[str]] = Counter()  # bytes that dropping idle datasets would give back
        self._given: Final[Counter[str]] = Counter()  # datasets given so far: to spread them

    def free(self, node: str) -> int:
        """Return what a node can still take as it is; less than nothing where it was promised more."""
        return self._room.get(node, 0)

    def given(self, node: str) -> int:
        """Count the Datasets that were given to a node so far."""
        return self._given[node]

    def fits(self, node: str, need: int) -> bool:
        """Tell whether a node can take so much, if it gives up what is idle there."""
        return self._room.get(node, 0) + self._idle[node] >= need

    def fits_elsewhere(self, nodes: Collection[str], node: str, need: int) -> bool:
        """Tell whether any of ``nodes`` but ``node`` can."""
        return any(self.fits(other, need) for other in nodes if other != node)

    def charge(self, node: str, need: int) -> None:
        """Promise so much on a node to a Dataset."""
        self._room[node] = self._room.get(node, 0) - need
        self._given[node] += 1

    def count_idle(self, node: str, freed: int) -> None:
        """Note that dropping what is idle there would give so much back; less than nothing: it was dropped."""
        self._idle[node] += freed

    def drop(self, node: str, freed: int) -> None:
        """Give back the room of what is idle there."""
        self._room[node] = self._room.get(node, 0) + freed


class Selection:
    """The nodes of one rule. ``version`` counts the changes that may matter to Datasets on other nodes too."""

    def __init__(self, view: ClusterView, rule: NodeRule, now: float) -> None:
        self.rule: Final = rule
        self.everywhere: Mapping[str, NodeView] = view.nodes
        self.nodes: Final[dict[str, NodeView]] = {}
        self.fresh: Final[set[str]] = set()  # that may be given something new
        self.counted: Final[set[str]] = set()  # that a share is a share of: lost ones and those about to go are not
        self.eligible = 0  # that are ready and have a cache
        self.version = 0
        self._ready: Final[set[str]] = set()
        self._domains: Final[dict[str, NodeDomains]] = {}  # by the key of the label
        self.update(view, view.nodes, now)

    def update(self, view: ClusterView, changed: Collection[str], now: float) -> None:
        """Take over what became of these nodes and their NodeCaches. ``now`` in seconds since the epoch."""
        self.everywhere = view.nodes
        before = self.version
        for name in changed:
            self._update(name, view, now)
        self.eligible = len(self._ready)
        self.version = before + 1 if self.version != before else before

    def domains(self, key: str) -> Mapping[str, Collection[str]]:
        """Return the nodes that may be given something new, by the values of a label."""
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
    """The selections of one view: thousands of Datasets share a few rules. ``now`` in seconds since the epoch."""

    def __init__(self, view: ClusterView, now: float) -> None:
        self._view = view
        self._now = now
        self._known: Final[dict[NodeRule, Selection]] = {}

    def of(self, dataset: Dataset) -> Selection:
        """Return the nodes that the Dataset may be on."""
        rule = NodeRule.of(dataset.spec.cache)
        if rule not in self._known:
            self._known[rule] = Selection(self._view, rule, self._now)
        return self._known[rule]

    def update(self, view: ClusterView, changed: Collection[str], now: float) -> Generator[None, None, bool]:
        """Take over a later view, in which these nodes or their NodeCaches are others; a step for each selection.

        Tells whether the version of any of them is another one now.
        """
        self._view, self._now, moved = view, now, False
        for selection in self._known.values():
            before = selection.version
            selection.update(view, changed, now)
            moved = moved or selection.version != before
            yield
        return moved

    def keep_only(self, used: Collection[Selection]) -> None:
        """Forget the rules that no Dataset has any more."""
        staying = {id(one) for one in used}
        for key in [key for key, one in self._known.items() if id(one) not in staying]:
            del self._known[key]
