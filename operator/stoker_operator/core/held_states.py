"""The states of all Datasets on all nodes, kept from pass to pass: a NodeCache that changed costs its own rows."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from stoker_api.nodecache import ListingResult, NodeCache, NodeError
from stoker_operator.core.node_states import (
    NOWHERE,
    NodesBeside,
    NodeState,
    NodeStates,
    StateSummary,
    SummaryGroup,
    states_on,
)

T = TypeVar("T")
_COMPARED = 2  # lists of nodes that are remembered with what they lack: those that are told of it, and those that count
Moved = dict[str, dict[str, NodeState | None]]  # UID -> node -> the state before, None where there was none


class HeldStates(NodeStates):
    """As ``NodeStates.of``, brought up to date by ``update``."""

    def __init__(self) -> None:
        self._by_uid: Final[dict[str, dict[str, NodeState]]] = {}
        super().__init__(self._by_uid)
        self._on_node: Final[dict[str, tuple[str, ...]]] = {}
        self._asked: Final[dict[str, dict[str, str]]] = {}
        self._answers: Final[dict[str, dict[str, ListingResult]]] = {}
        self._summaries: Final[dict[str, dict[str, StateSummary]]] = {}
        self._groups: Final[dict[str, dict[int, SummaryGroup]]] = {}  # by the id of the summary
        self._beside: Final[dict[str, list[tuple[Sequence[str], NodesBeside]]]] = {}  # until others are known
        self._errors: Final[dict[str, dict[str, NodeError]]] = {}
        self._having: Final[dict[str, tuple[str, list[str]]]] = {}  # UID -> a version, and who has its manifest

    def on_node(self, node: str) -> Sequence[str]:
        """Return the UIDs of what a node was given or has."""
        return self._on_node.get(node, ())

    def summaries(self, uid: str) -> Mapping[str, StateSummary]:
        """Return what sums over the nodes of one dataset are made of, by node."""
        return self._summaries.get(uid, {})

    def groups(self, uid: str) -> Iterable[SummaryGroup]:
        """Return the summaries of one dataset, each once with the number of nodes."""
        return self._groups.get(uid, {}).values()

    def beside(self, uid: str, names: Sequence[str]) -> NodesBeside:
        """Compare nodes with those of which anything is known about one dataset; the same names are compared once."""
        compared = self._beside.setdefault(uid, [])
        found = next((one for asked, one in compared if asked is names), None)
        if found is None:
            found = super().beside(uid, names)
            compared[:] = [*compared[1 - _COMPARED :], (names, found)]
        return found

    def errors(self, uid: str) -> Mapping[str, NodeError]:
        """Return what nodes say is wrong, by node."""
        return self._errors.get(uid, {})

    def asked(self, uid: str) -> Mapping[str, str]:
        """Return the listings that nodes were asked for, by node."""
        return self._asked.get(uid, {})

    def answers(self, uid: str) -> Mapping[str, ListingResult]:
        """Return what nodes found when they listed, by node."""
        return self._answers.get(uid, {})

    def with_manifest(self, uid: str, version: str) -> Sequence[str]:
        """Return the nodes that can hand out a version's manifest, sorted."""
        known = self._having.get(uid)
        if known is None or known[0] != version:
            known = self._having[uid] = (version, list(super().with_manifest(uid, version)))
        return known[1]

    def update(self, node_caches: Mapping[str, NodeCache], changed: Iterable[str]) -> Moved:
        """Take over the NodeCaches of these nodes; gives the states that are others now, as they were before."""
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
        """Forget what was worked out for a Dataset that is gone."""
        self._having.pop(uid, None)
        self._beside.pop(uid, None)

    def _put(self, uid: str, node: str, state: NodeState | None) -> None:
        # The newest row even where it says the same: the one before would keep its whole NodeCache in memory.
        _set(self._by_uid, uid, node, state)

    def _index(self, uid: str, node: str, after: NodeState | None) -> None:
        state = after or NOWHERE
        self._regroup(uid, self._summaries.get(uid, {}).get(node), None if after is None else state.summary)
        _set(self._summaries, uid, node, None if after is None else state.summary)
        _set(self._errors, uid, node, state.summary.error)
        asked = state.desired.listing_id if state.desired is not None else ""
        _set(self._asked, uid, node, asked or None)
        _set(self._answers, uid, node, state.reported.listing if state.reported is not None else None)
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
