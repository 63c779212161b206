"""The states of all NodeCaches, computed again for each call: the model of ``NodeStateCache``."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

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


class PlainNodeStates(NodeStates):
    """All states: uid -> node -> NodeState."""

    def __init__(self, node_caches: Mapping[str, NodeCache]) -> None:
        self._states: dict[str, dict[str, NodeState]] = {}
        for node, cache in node_caches.items():
            for uid, state in states_on(cache):
                self._states.setdefault(uid, {})[node] = state

    def of_dataset(self, uid: str) -> Mapping[str, NodeState]:
        return self._states.get(uid, {})

    def get(self, uid: str, node: str) -> NodeState:
        return self.of_dataset(uid).get(node, NOWHERE)

    def summaries(self, uid: str) -> Mapping[str, StateSummary]:
        return {node: state.summary for node, state in self.of_dataset(uid).items() if state.assigned}

    def groups(self, uid: str) -> Iterable[SummaryGroup]:
        summaries = self.summaries(uid).values()
        by_id = {id(summary): summary for summary in summaries}
        return [SummaryGroup(by_id[key], count) for key, count in Counter(map(id, summaries)).items()]

    def beside(self, uid: str, names: Sequence[str]) -> NodesBeside:
        known = self.summaries(uid).keys()
        return NodesBeside(frozenset(names) - known, frozenset(known) - frozenset(names))

    def errors(self, uid: str) -> Mapping[str, NodeError]:
        return {node: row.error for node, row in self.summaries(uid).items() if row.error is not None}

    def asked(self, uid: str) -> Mapping[str, str]:
        states = self.of_dataset(uid).items()
        return {node: one.desired.listing_id for node, one in states if one.desired and one.desired.listing_id}

    def answers(self, uid: str) -> Mapping[str, ListingResult]:
        states = self.of_dataset(uid).items()
        return {node: answer for node, one in states if (answer := one.answer) is not None}

    def leftovers(self, uid: str) -> Iterable[str]:
        return [node for node, state in self.of_dataset(uid).items() if state.leftover]

    def with_manifest(self, uid: str, version: str) -> Sequence[str]:
        return sorted(node for node, state in self.of_dataset(uid).items() if state.has_manifest(version))
