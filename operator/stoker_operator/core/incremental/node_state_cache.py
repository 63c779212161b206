"""The states of all Datasets on all nodes, kept across passes. A changed NodeCache costs only its own rows."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from stoker_api.node_caches.node_dataset_status import ListingResult, NodeError
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.views.node_states import (
    NOWHERE,
    NodesBeside,
    NodeState,
    NodeStates,
    StateSummary,
    SummaryGroup,
    states_on,
)

T = TypeVar("T")
_COMPARED = 2  # remembered comparisons of node lists: nodes with an entry, and targets
Moved = dict[str, dict[str, NodeState | None]]  # UID -> node -> the previous state, None if there was none


class NodeStateCache(NodeStates):
    """The states from all NodeCaches. ``update`` refreshes them."""

    def __init__(self) -> None:
        self._by_uid: Final[dict[str, dict[str, NodeState]]] = {}
        self._on_node: Final[dict[str, tuple[str, ...]]] = {}
        self._asked: Final[dict[str, dict[str, str]]] = {}
        self._answers: Final[dict[str, dict[str, ListingResult]]] = {}
        self._summaries: Final[dict[str, dict[str, StateSummary]]] = {}
        self._groups: Final[dict[str, dict[int, SummaryGroup]]] = {}  # by the id of the summary
        self._beside: Final[dict[str, list[tuple[Sequence[str], NodesBeside]]]] = {}  # until the known nodes change
        self._errors: Final[dict[str, dict[str, NodeError]]] = {}
        self._leftovers: Final[dict[str, dict[str, bool]]] = {}
        self._having: Final[dict[str, tuple[str, list[str]]]] = {}  # UID -> a version, and the nodes with its manifest

    def of_dataset(self, uid: str) -> Mapping[str, NodeState]:
        """Return the states of one Dataset, by node."""
        return self._by_uid.get(uid, {})

    def get(self, uid: str, node: str) -> NodeState:
        """Return one state, empty if the node has no entry or report for the Dataset."""
        return self.of_dataset(uid).get(node, NOWHERE)

    def on_node(self, node: str) -> Sequence[str]:
        """Return the UIDs of Datasets that a node should have or has."""
        return self._on_node.get(node, ())

    def summaries(self, uid: str) -> Mapping[str, StateSummary]:
        """Return the summaries of the nodes with the Dataset in their spec, by node."""
        return self._summaries.get(uid, {})

    def groups(self, uid: str) -> Iterable[SummaryGroup]:
        """Return the distinct summaries of one Dataset with their numbers of nodes."""
        return self._groups.get(uid, {}).values()

    def beside(self, uid: str, names: Sequence[str]) -> NodesBeside:
        """Compare nodes with the known nodes of one Dataset. The same list is compared once."""
        compared = self._beside.setdefault(uid, [])
        found = next((one for asked, one in compared if asked is names), None)
        if found is None:
            nodes, listed = self.summaries(uid).keys(), frozenset(names)
            found = NodesBeside(listed - nodes, frozenset(nodes) - listed)
            compared[:] = [*compared[1 - _COMPARED :], (names, found)]
        return found

    def errors(self, uid: str) -> Mapping[str, NodeError]:
        """Return the errors that nodes report, by node."""
        return self._errors.get(uid, {})

    def asked(self, uid: str) -> Mapping[str, str]:
        """Return the listings that nodes should make, by node."""
        return self._asked.get(uid, {})

    def answers(self, uid: str) -> Mapping[str, ListingResult]:
        """Return the answers of nodes that should list, by node."""
        return self._answers.get(uid, {})

    def leftovers(self, uid: str) -> Iterable[str]:
        """Return the nodes that report a Dataset which is not in their spec."""
        return self._leftovers.get(uid, ())

    def with_manifest(self, uid: str, version: str) -> Sequence[str]:
        """Return the nodes that can serve a version's manifest, sorted."""
        known = self._having.get(uid)
        if known is None or known[0] != version:
            nodes = sorted(node for node, state in self.of_dataset(uid).items() if state.has_manifest(version))
            known = self._having[uid] = (version, nodes)
        return known[1]

    def update(self, node_caches: Mapping[str, NodeCache], changed: Iterable[str]) -> Moved:
        """Update these nodes' NodeCaches. Return the previous values of changed states."""
        moved: Moved = {}
        for node in changed:
            cache = node_caches.get(node)
            new = dict(states_on(cache)) if cache is not None else {}
            for uid in {*self.on_node(node), *new}:
                before, after = self._by_uid.get(uid, {}).get(node), new.get(uid)
                self._put(uid, node, after)
                if before != after:
                    moved.setdefault(uid, {})[node] = before
                    self._index(uid, node, after)
            self._on_node[node] = tuple(new)
            if cache is None:
                del self._on_node[node]
        return moved

    def forget(self, uid: str) -> None:
        """Remove the caches of a deleted Dataset."""
        self._having.pop(uid, None)
        self._beside.pop(uid, None)

    def _put(self, uid: str, node: str, state: NodeState | None) -> None:
        # Store the newest row even if it is equal: the old one would keep its whole NodeCache in memory.
        _set(self._by_uid, uid, node, state)

    def _index(self, uid: str, node: str, after: NodeState | None) -> None:
        state = after or NOWHERE
        summary = after.summary if after is not None and after.assigned else None
        self._regroup(uid, self._summaries.get(uid, {}).get(node), summary)
        _set(self._summaries, uid, node, summary)
        _set(self._leftovers, uid, node, True if state.leftover else None)
        _set(self._errors, uid, node, state.summary.error)
        asked = state.desired.listing_id if state.desired is not None else ""
        _set(self._asked, uid, node, asked or None)
        _set(self._answers, uid, node, state.answer)
        if uid not in self._having:
            return
        version, having = self._having[uid]
        at = bisect_left(having, node)
        there = at < len(having) and having[at] == node
        if state.has_manifest(version) and not there:
            insort(having, node)
        elif there and not state.has_manifest(version):
            del having[at]

    def _regroup(self, uid: str, before: StateSummary | None, after: StateSummary | None) -> None:
        if before is None or after is None:
            self._beside.pop(uid, None)
        groups = self._groups.setdefault(uid, {})
        for summary, change in ((before, -1), (after, 1)):
            if summary is None:
                continue
            known = groups.get(id(summary))
            count = change + (known.nodes if known is not None else 0)
            if count:
                groups[id(summary)] = SummaryGroup(summary, count)
            else:
                del groups[id(summary)]
        if not groups:
            del self._groups[uid]


def _set(index: dict[str, dict[str, T]], uid: str, node: str, value: T | None) -> None:
    rows = index.get(uid)
    if value is not None:
        if rows is None:
            index[uid] = {node: value}
        else:
            rows[node] = value
    elif rows is not None:
        rows.pop(node, None)
        if not rows:
            del index[uid]
