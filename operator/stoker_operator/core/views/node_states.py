"""The spec and report of each node for one Dataset, by its uid, and the part of a version that it wants warm."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol

from stoker_api.datasets.warm_paths import WarmPathsStatus, digest_as_paths, list_named, paths_digest
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import ListingResult, NodeDatasetStatus, NodeError, NodePhase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.views.cluster import NodeView

_DONE = frozenset({NodePhase.FULL, NodePhase.PATHS_WARM})


def is_warm(report: NodeDatasetStatus, paths: tuple[str, ...]) -> bool:
    """Return True if a node finished these paths, or the whole version without paths.

    A node with other paths reports their digest, and its data for those does not count.
    """
    if report.phase is NodePhase.WARM:
        return True
    told = report.warm_paths.digest if report.warm_paths is not None else ""
    return report.phase in _DONE and told == paths_digest(paths)


def part_of(report: NodeDatasetStatus, paths: tuple[str, ...]) -> WarmPathsStatus | None:
    """Return a node's figures for these paths. Return None without paths or without figures."""
    part = report.warm_paths
    return part if paths and part is not None and part.digest == paths_digest(paths) else None


def knows_no_list(report: NodeDatasetStatus, paths: tuple[str, ...]) -> bool:
    """Return True if a node with an old sidecar took a list for a path. Old sidecars do not support lists."""
    told = report.warm_paths.digest if report.warm_paths is not None else ""
    return bool(list_named(paths)) and told == digest_as_paths(paths)


def least_of(parts: Iterable[WarmPathsStatus]) -> WarmPathsStatus | None:
    """Return the figures of the node with the least bytes, or None if no node has any."""
    return min(parts, key=lambda part: part.warm_bytes, default=None)


# Seconds that a held pod keeps a silent node, or a node with a silent sidecar, as its target. After an API server was
# away for 70 s, all nodes were Unknown for 58 s and came back one by one.
SILENCE = 90.0


# As long as kube-controller-manager keeps pods on a node that does not answer (tolerationSeconds: 300).
NODE_GRACE = 300.0
_MOST_SUMMARIES = 10_000  # summaries to share: of versions that some node has completely
_WITH_MANIFEST = frozenset({NodePhase.WARMING, NodePhase.WARM, NodePhase.PATHS_WARM, NodePhase.FULL, NodePhase.IDLE})


_SETTLED = frozenset({NodePhase.WARM, NodePhase.PATHS_WARM, NodePhase.FULL, NodePhase.IDLE})


class StateSummary(NamedTuple):
    """The inputs of sums over thousands of nodes."""

    phase: str = str(NodePhase.PENDING)
    attention: int = 1  # 0 for a node in trouble, 1 in progress, 2 settled
    done: bool = False  # it finished its version; without paths, it has all of it
    version: str = ""
    warm_bytes: int = 0
    speed: int = 0
    eta: int | None = None
    error: NodeError | None = None


NO_SUMMARY = StateSummary()


class SummaryGroup(NamedTuple):
    """A summary and the number of nodes that share it."""

    summary: StateSummary
    nodes: int


class NodesBeside(NamedTuple):
    """The difference between some nodes and the known nodes."""

    unknown: frozenset[str]
    others: frozenset[str]  # known nodes that are not among them


@dataclass(frozen=True, slots=True)
class NodeState:
    """One Dataset on one node: the spec (``desired``) and the report (``reported``).

    A report counts only for what the operator assigned to that node. If a Dataset is not in the node's spec, its row is
    dropped and only ``leftover`` remains.
    """

    desired: NodeDataset | None = None
    reported: NodeDatasetStatus | None = None
    # On the disk of a node with a new NodeCache, known only from its report (docs/adr/0007). It is kept there, with no
    # other effect.
    found: bool = False
    leftover: bool = False  # reported, but not in the node's spec: to be cleaned, unless found

    _summary: StateSummary | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def summary(self) -> StateSummary:
        """The inputs of sums, computed once."""
        if self._summary is None:
            object.__setattr__(self, "_summary", _summarize(self))
        return self._summary or NO_SUMMARY

    @property
    def assigned(self) -> bool:
        """True if the operator assigned it to the node. Only then the node's report counts."""
        return self.desired is not None and not self.found

    @property
    def warm_bytes(self) -> int:
        """Bytes on that node's disk."""
        return self.reported.warm_bytes if self.reported else 0

    @property
    def sure_bytes(self) -> int:
        """Bytes on disk that count beyond the node itself, such as for a quota."""
        return 0 if self.found else self.warm_bytes

    @property
    def unread(self) -> bool:
        """True while the node has data on disk and has not yet measured it."""
        row = self.reported
        return self.found or (row is not None and not row.files and bool(row.retained))

    @property
    def done(self) -> bool:
        """True if the node finished the version in its spec."""
        if self.reported is None or self.desired is None or self.found:
            return False
        if self.reported.version != self.desired.version:
            return False
        return bool(self.desired.version) and is_warm(self.reported, self.desired.warm_paths)

    @property
    def answer(self) -> ListingResult | None:
        """The node's answer to the listing in its spec, or None without one."""
        row, desired = self.reported, self.desired
        if row is None or row.listing is None or desired is None or not desired.listing_id:
            return None
        return row.listing if row.listing.id == desired.listing_id else None

    def has_manifest(self, version: str) -> bool:
        """Return True if the node can serve this version's manifest."""
        if self.reported is None or not version or self.found:
            return False
        listed = self.reported.listing.version if self.reported.listing else ""
        # A node names its version before it has the manifest. The number of files comes from the manifest.
        current = self.reported.version if self.reported.files or self.reported.phase in _WITH_MANIFEST else ""
        return version in (current, listed, *self.reported.retained)


NOWHERE = NodeState()


def _summarize(state: NodeState) -> StateSummary:
    row = state.reported
    if row is None or not state.assigned:
        return NO_SUMMARY
    troubled = row.error is not None or row.phase is NodePhase.FAILED
    attention = 0 if troubled else 2 if row.phase in _SETTLED else 1
    done = state.done and is_warm(row, ())
    figures = (row.warm_bytes, row.bytes_per_second, row.eta_seconds)
    summary = StateSummary(str(row.phase), attention, done, row.version, *figures, row.error)
    return _same_summary(summary) if done and row.error is None else summary


@lru_cache(maxsize=_MOST_SUMMARIES)
def _same_summary(summary: StateSummary) -> StateSummary:
    """Return one shared object for equal summaries: thousands of nodes have all of a Dataset.

    Not for nodes in progress, whose summaries change every few seconds and would fill the cache.
    """
    return summary


class NodeStates(Protocol):
    """All states: uid -> node -> NodeState."""

    def of_dataset(self, uid: str) -> Mapping[str, NodeState]:
        """Return the states of one Dataset, by node."""

    def get(self, uid: str, node: str) -> NodeState:
        """Return one state, empty if the node has no entry or report for the Dataset."""

    def summaries(self, uid: str) -> Mapping[str, StateSummary]:
        """Return the summaries of the nodes with the Dataset in their spec, by node."""

    def groups(self, uid: str) -> Iterable[SummaryGroup]:
        """Return the distinct summaries of one Dataset with their numbers of nodes. Thousands of nodes share a few."""

    def beside(self, uid: str, names: Sequence[str]) -> NodesBeside:
        """Compare nodes with the known nodes of one Dataset."""

    def errors(self, uid: str) -> Mapping[str, NodeError]:
        """Return the errors that nodes report, by node."""

    def asked(self, uid: str) -> Mapping[str, str]:
        """Return the listings that nodes should make, by node."""

    def answers(self, uid: str) -> Mapping[str, ListingResult]:
        """Return the answers of nodes that should list, by node."""

    def leftovers(self, uid: str) -> Iterable[str]:
        """Return the nodes that report a Dataset which is not in their spec."""

    def with_manifest(self, uid: str, version: str) -> Sequence[str]:
        """Return the nodes that can serve a version's manifest, sorted."""


def states_on(cache: NodeCache) -> Iterator[tuple[str, NodeState]]:
    """Yield the states on one node, by uid."""
    given = {entry.uid: entry for entry in cache.spec.datasets}
    reports = {row.uid: row for row in cache.status.datasets}
    found = found_on_disk(cache)
    for uid in given.keys() | reports.keys():
        entry = given.get(uid)
        kept = uid in found if entry is None else entry.adopted
        reported = reports.get(uid) if entry is not None or kept else None
        yield uid, NodeState(entry, reported, kept, entry is None)


def found_on_disk(cache: NodeCache) -> frozenset[str]:
    """Return UIDs of earlier data on a node with a new NodeCache that its spec lacks."""
    spec = cache.spec
    if not (spec.keep_unlisted or spec.keep):
        return frozenset()
    rows = {row.uid for row in cache.status.datasets if row.version or row.retained}
    kept = rows if spec.keep_unlisted else rows.intersection(spec.keep)
    return frozenset(kept.difference(entry.uid for entry in spec.datasets))


def fell_silent(node: NodeView, now: float) -> bool:
    """Return True if a node is not ready for longer than ``SILENCE``."""
    return not node.ready and now - node.not_ready_since >= SILENCE


def alive(node: NodeView | None, now: float) -> bool:
    """Return True if a node is ready, or was ready within ``NODE_GRACE``."""
    if node is None:
        return False
    return node.ready or now - node.not_ready_since < NODE_GRACE
