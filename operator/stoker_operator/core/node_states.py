"""What each node was given and what it reports of one dataset, found by the dataset's uid."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from stoker_api.node_dataset import NodeDataset
from stoker_api.nodecache import (
    ListingResult,
    NodeCache,
    NodeDatasetStatus,
    NodeError,
    NodePhase,
)
from stoker_operator.core.feasible_nodes import SILENCE
from stoker_operator.core.views import NodeView
from stoker_operator.core.warm_parts import is_warm

# As long as kube-controller-manager lets pods stay on a node that stopped answering (tolerationSeconds: 300).
NODE_GRACE = 300.0
_MOST_SUMMARIES = 10_000  # that are remembered to be shared: of versions that some node has all of
_WITH_MANIFEST = frozenset({NodePhase.WARMING, NodePhase.WARM, NodePhase.PATHS_WARM, NodePhase.FULL, NodePhase.IDLE})


_SETTLED = frozenset({NodePhase.WARM, NodePhase.PATHS_WARM, NodePhase.FULL, NodePhase.IDLE})


class StateSummary(NamedTuple):
    """What sums over thousands of nodes are made of."""

    phase: str = str(NodePhase.PENDING)
    attention: int = 1  # 0 for a node in trouble, 1 for one on its way, 2 for one that is settled
    done: bool = False  # it has all that it will ever have of its version, which is all of it where no path is named
    version: str = ""
    warm_bytes: int = 0
    speed: int = 0
    eta: int | None = None
    error: NodeError | None = None


NO_SUMMARY = StateSummary()


class SummaryGroup(NamedTuple):
    """What so many nodes say alike."""

    summary: StateSummary
    nodes: int


class NodesBeside(NamedTuple):
    """How some nodes and those that are known differ."""

    unknown: frozenset[str]
    others: frozenset[str]  # that are known, and not among them


@dataclass(frozen=True, slots=True)
class NodeState:
    """One dataset on one node: what it was told (``desired``) and what it says (``reported``)."""

    desired: NodeDataset | None = None
    reported: NodeDatasetStatus | None = None
    found: bool = False  # on the disk of a node whose NodeCache is new: kept there until a plan was made that knows it

    _summary: StateSummary | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def summary(self) -> StateSummary:
        """What sums are made of; worked out once."""
        if self._summary is None:
            object.__setattr__(self, "_summary", _summarize(self))
        return self._summary or NO_SUMMARY

    @property
    def warm_bytes(self) -> int:
        """Bytes on that node's disk."""
        return self.reported.warm_bytes if self.reported else 0

    @property
    def unread(self) -> bool:
        """True while the node has something on its disk and has not looked yet how much of it there is."""
        row = self.reported
        return self.found or (row is not None and not row.files and bool(row.retained))

    @property
    def done(self) -> bool:
        """True when the node has all that it will ever have of the version that it was given."""
        if self.reported is None or self.desired is None or self.reported.version != self.desired.version:
            return False
        return bool(self.desired.version) and is_warm(self.reported, self.desired.warm_paths)

    def has_manifest(self, version: str) -> bool:
        """Tell whether the node can hand out this version's manifest."""
        if self.reported is None or not version:
            return False
        listed = self.reported.listing.version if self.reported.listing else ""
        # A node names the version that it was given before it has the manifest; files are what a manifest tells it.
        current = self.reported.version if self.reported.files or self.reported.phase in _WITH_MANIFEST else ""
        return version in (current, listed, *self.reported.retained)


NOWHERE = NodeState()


def _summarize(state: NodeState) -> StateSummary:
    row = state.reported
    if row is None:
        return NO_SUMMARY
    troubled = row.error is not None or row.phase is NodePhase.FAILED
    attention = 0 if troubled else 2 if row.phase in _SETTLED else 1
    done = state.done and is_warm(row, ())
    figures = (row.warm_bytes, row.bytes_per_second, row.eta_seconds)
    summary = StateSummary(str(row.phase), attention, done, row.version, *figures, row.error)
    return _same_summary(summary) if done and row.error is None else summary


@lru_cache(maxsize=_MOST_SUMMARIES)
def _same_summary(summary: StateSummary) -> StateSummary:
    """Return one object for all that say the same: thousands of nodes have all of a Dataset.

    Not for nodes on their way, each of which says something else every few seconds: it would be remembered for nothing.
    """
    return summary


class NodeStates:
    """All states: uid -> node -> NodeState."""

    def __init__(self, by_uid: Mapping[str, Mapping[str, NodeState]] = MappingProxyType({})) -> None:
        self._states: Final = by_uid

    @classmethod
    def of(cls, node_caches: Mapping[str, NodeCache]) -> "NodeStates":
        """Read them out of the NodeCaches."""
        out: dict[str, dict[str, NodeState]] = {}
        for node, cache in node_caches.items():
            for uid, state in states_on(cache):
                out.setdefault(uid, {})[node] = state
        return cls(out)

    def of_dataset(self, uid: str) -> Mapping[str, NodeState]:
        """Return the states of one dataset, by node."""
        return self._states.get(uid, {})

    def get(self, uid: str, node: str) -> NodeState:
        """Return one state; an empty one when the node knows nothing of the dataset."""
        return self.of_dataset(uid).get(node, NOWHERE)

    def summaries(self, uid: str) -> Mapping[str, StateSummary]:
        """Return what sums over the nodes of one dataset are made of, by node."""
        return {node: one.summary for node, one in self.of_dataset(uid).items()}

    def groups(self, uid: str) -> Iterable[SummaryGroup]:
        """Return the summaries of one dataset, each once with the number of nodes: thousands share a few."""
        summaries = self.summaries(uid).values()
        by_id = {id(summary): summary for summary in summaries}
        return [SummaryGroup(by_id[key], count) for key, count in Counter(map(id, summaries)).items()]

    def beside(self, uid: str, names: Sequence[str]) -> NodesBeside:
        """Compare nodes with those of which anything is known about one dataset."""
        known = self.summaries(uid).keys()
        return NodesBeside(frozenset(names) - known, frozenset(known) - frozenset(names))

    def errors(self, uid: str) -> Mapping[str, NodeError]:
        """Return what nodes say is wrong, by node."""
        return {node: row.error for node, row in self.summaries(uid).items() if row.error is not None}

    def asked(self, uid: str) -> Mapping[str, str]:
        """Return the listings that nodes were asked for, by node."""
        states = self.of_dataset(uid).items()
        return {node: one.desired.listing_id for node, one in states if one.desired and one.desired.listing_id}

    def answers(self, uid: str) -> Mapping[str, ListingResult]:
        """Return what nodes found when they listed, by node."""
        states = self.of_dataset(uid).items()
        return {node: one.reported.listing for node, one in states if one.reported and one.reported.listing}

    def with_manifest(self, uid: str, version: str) -> Sequence[str]:
        """Return the nodes that can hand out a version's manifest, sorted."""
        return sorted(node for node, one in self.of_dataset(uid).items() if one.has_manifest(version))


def states_on(cache: NodeCache) -> Iterator[tuple[str, NodeState]]:
    """Yield the states on one node, by uid."""
    given = {entry.uid: entry for entry in cache.spec.datasets}
    reports = {row.uid: row for row in cache.status.datasets}
    found = found_on_disk(cache)
    for uid in given.keys() | reports.keys():
        yield uid, NodeState(given.get(uid), reports.get(uid), uid in found)


def found_on_disk(cache: NodeCache) -> frozenset[str]:
    """Return UIDs of what a new NodeCache's node has of earlier, and its plan does not have yet."""
    spec = cache.spec
    if not (spec.keep_unlisted or spec.keep):
        return frozenset()
    rows = {row.uid for row in cache.status.datasets if row.version or row.retained}
    kept = rows if spec.keep_unlisted else rows.intersection(spec.keep)
    return frozenset(kept.difference(entry.uid for entry in spec.datasets))


def fell_silent(node: NodeView, now: float) -> bool:
    """Tell whether a node is not ready, and not since a moment ago."""
    return not node.ready and now - node.not_ready_since >= SILENCE


def alive(node: NodeView | None, now: float) -> bool:
    """Tell whether a node is ready, or stopped being so only a moment ago."""
    if node is None:
        return False
    return node.ready or now - node.not_ready_since < NODE_GRACE
