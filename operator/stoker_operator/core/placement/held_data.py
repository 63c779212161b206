"""What nodes hold of one Dataset: which copies count, which stay, and which are kept first."""

from collections.abc import Set as AbstractSet
from typing import Final

from stoker_api.datasets.dataset import Dataset
from stoker_operator.core.placement.node_room import Selection
from stoker_operator.core.views.node_states import NodeState, alive, fell_silent


class HeldData:
    """The data of one Dataset on nodes. ``pods``: nodes of its pods. ``now``: seconds since the epoch."""

    def __init__(self, dataset: Dataset, pods: frozenset[str], selection: Selection, now: float) -> None:
        self._dataset: Final = dataset
        self._pods: Final = pods
        self._selection: Final = selection
        self._now: Final = now
        # With warm.nodes, only those nodes. Warm data elsewhere stays while no Dataset needs the room.
        self.named: Final = frozenset(dataset.spec.warm.nodes)
        self.fresh: Final[AbstractSet[str]] = self.named & selection.fresh if self.named else selection.fresh

    def holds(self, name: str, state: NodeState) -> bool:
        """Return True if a node holds the Dataset. A node that takes nothing new and only lists does not count."""
        node = self._selection.nodes.get(name)
        if node is None or node.leaving or not alive(node, self._now) or (self.named and name not in self.named):
            return False
        if state.found:
            return name in self.fresh  # under the same conditions as a new replica
        if state.desired is None:
            return False
        return state.desired.eager or state.warm_bytes > 0 or state.unread or name in self.fresh

    def worth_keeping(self, name: str, state: NodeState) -> bool:
        """Return True if idle data stays.

        It stays until the room is needed. It also stays on a silent node, where nothing can change.
        """
        if self._dataset.metadata.deletion_timestamp or name not in self._selection.everywhere:
            return False
        if state.found:
            return name in self._selection.nodes
        if state.desired is None:
            return False
        silent = not self._selection.everywhere[name].ready
        return silent or (name in self._selection.nodes and (state.warm_bytes > 0 or state.unread))

    def keep_rank(self, name: str, state: NodeState) -> tuple[bool, bool, bool, bool, bool, str]:
        """Rank nodes for keeping: reported-only data last, complete before partial, then nodes that already warm.

        These values only grow, so the order is stable. Nodes that are silent for a while come last. After an API server
        returns, its nodes become ready one by one. Without the delay, one node would fetch the data of another.
        """
        eager = state.desired is not None and state.desired.eager
        return (state.found, self.fell_silent(name), not state.done, not eager, name not in self._pods, name)

    def evictable(self, state: NodeState) -> int:
        """Return the bytes that dropping it frees. Pinned data frees 0."""
        return 0 if self._dataset.spec.cache.pinned else state.warm_bytes

    def is_leaving(self, name: str) -> bool:
        """Return True if the node leaves the cluster."""
        node = self._selection.everywhere.get(name)
        return node is not None and bool(node.leaving)

    def fell_silent(self, name: str) -> bool:
        """Return True if the node has been silent for a while."""
        return fell_silent(self._selection.everywhere[name], self._now)
