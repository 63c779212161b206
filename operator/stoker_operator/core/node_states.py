"""What each node was given and what it reports of one dataset, found by the dataset's uid."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from stoker_api.nodecache import NodeCache, NodeDataset, NodeDatasetStatus, NodePhase
from stoker_operator.core.views import NodeView

# As long as kube-controller-manager lets pods stay on a node that stopped answering (tolerationSeconds: 300).
NODE_GRACE = 300.0
_WITH_MANIFEST = frozenset({NodePhase.WARMING, NodePhase.WARM, NodePhase.FULL, NodePhase.IDLE})


@dataclass(frozen=True, slots=True)
class Holding:
    """One dataset on one node: the wish (``given``) and the report."""

    given: NodeDataset | None = None
    report: NodeDatasetStatus | None = None

    @property
    def warm_bytes(self) -> int:
        """Bytes on that node's disk."""
        return self.report.warm_bytes if self.report else 0

    @property
    def done(self) -> bool:
        """True when the node has all that it will ever have of the version that it was given."""
        if self.report is None or self.given is None or self.report.version != self.given.version:
            return False
        return bool(self.given.version) and self.report.phase in (NodePhase.WARM, NodePhase.FULL)

    def has_manifest(self, version: str) -> bool:
        """True when the node can hand out this version's manifest."""
        if self.report is None or not version:
            return False
        listed = self.report.listing.version if self.report.listing else ""
        # A node names the version that it was given before it has the manifest; files are what a manifest tells it.
        current = self.report.version if self.report.files or self.report.phase in _WITH_MANIFEST else ""
        return version in (current, listed, *self.report.retained)


@dataclass(frozen=True, slots=True)
class Holdings:
    """All holdings: uid -> node -> Holding."""

    by_uid: Mapping[str, Mapping[str, Holding]] = field(default_factory=dict)

    @classmethod
    def of(cls, node_caches: Mapping[str, NodeCache]) -> "Holdings":
        """Read them out of the NodeCaches."""
        out: dict[str, dict[str, Holding]] = {}
        for node, cache in node_caches.items():
            for uid, holding in _of_node(cache):
                out.setdefault(uid, {})[node] = holding
        return cls(out)

    def of_dataset(self, uid: str) -> Mapping[str, Holding]:
        """Node -> Holding of one dataset."""
        return self.by_uid.get(uid, {})

    def get(self, uid: str, node: str) -> Holding:
        """One holding; an empty one when the node knows nothing of the dataset."""
        return self.of_dataset(uid).get(node, Holding())


def _of_node(cache: NodeCache) -> Iterator[tuple[str, Holding]]:
    given = {entry.uid: entry for entry in cache.spec.datasets}
    reports = {row.uid: row for row in cache.status.datasets}
    for uid in given.keys() | reports.keys():
        yield uid, Holding(given.get(uid), reports.get(uid))


def alive(node: NodeView | None, now: float) -> bool:
    """True for a node that is ready, or stopped being so only a moment ago."""
    if node is None:
        return False
    return node.ready or now - node.not_ready_since < NODE_GRACE
