"""The warmth of each node for a set of Datasets, from node reports."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from stoker_api.datasets.dataset import Dataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.views.node_states import is_warm, part_of

# Full: the quota is used up, so the node does not become warmer.
_WARM_ENOUGH = frozenset({NodePhase.WARM, NodePhase.PATHS_WARM, NodePhase.FULL})


@dataclass(frozen=True, slots=True)
class Warmth:
    """One or more Datasets on one node. Sizes are in bytes. ``eta``: seconds, None without an estimate."""

    warm_bytes: int = 0
    total_bytes: int = 0
    warm: bool = False
    planned: bool = False
    eta: int | None = None
    error: str = ""

    @property
    def share(self) -> float:
        """0 to 1. An incomplete copy is below 1."""
        if self.warm:
            return 1.0
        return min(self.warm_bytes / self.total_bytes, 0.99) if self.total_bytes else 0.0

    @property
    def percent(self) -> int:
        """0 to 100, rounded down. For a full node, the share that it holds."""
        if self.warm and self.total_bytes:
            return min(100, 100 * self.warm_bytes // self.total_bytes)
        return int(self.share * 100)


NOTHING = Warmth()


class WarmthIndex:
    """The warmth of each Dataset on each node, from the last NodeCaches passed to ``put``."""

    def __init__(self, node_caches: Mapping[str, NodeCache] = MappingProxyType({})) -> None:
        self._reports: dict[str, dict[str, NodeDatasetStatus]] = defaultdict(dict)
        self._planned: dict[str, set[str]] = defaultdict(set)
        self._caches: dict[str, NodeCache] = {}
        for name, cache in node_caches.items():
            self.put(name, cache)

    def put(self, name: str, cache: NodeCache | None) -> set[str]:
        """Update a NodeCache, None if deleted. Return the UIDs of its old and new Datasets."""
        touched = self._forget(name)
        if cache is None:
            return touched
        self._caches[name] = cache
        given = _uids(cache)
        for row in cache.status.datasets:
            if row.uid in given:
                self._reports[row.uid][name] = row
        for uid in given:
            self._planned[uid].add(name)
        return touched | given

    def _forget(self, name: str) -> set[str]:
        old = self._caches.pop(name, None)
        touched = set() if old is None else _uids(old)
        for uid in touched:
            self._reports[uid].pop(name, None)
            self._planned[uid].discard(name)
            if not self._reports[uid] and not self._planned[uid]:
                del self._reports[uid], self._planned[uid]
        return touched

    def nodes(self, dataset: Dataset) -> set[str]:
        """Return the nodes that hold or should hold some of the Dataset."""
        uid = dataset.metadata.uid
        return {*self._reports.get(uid, ()), *self._planned.get(uid, ())}

    def holds(self, datasets: Iterable[Dataset], node: str) -> bool:
        """Return True if a node holds or should hold some of one of ``datasets``."""
        uids = [dataset.metadata.uid for dataset in datasets]
        return any(node in self._reports.get(uid, ()) or node in self._planned.get(uid, ()) for uid in uids)

    def of(self, dataset: Dataset, node: str, version: str = "") -> Warmth:
        """Return the warmth of one version of a Dataset on one node. The default is the current version."""
        planned = node in self._planned.get(dataset.metadata.uid, ())
        report = self._reports.get(dataset.metadata.uid, {}).get(node)
        total = dataset.status.bytes or 0
        error = report.error.message if report is not None and report.error is not None else ""
        if version and version != dataset.status.version:
            return _older(report, version, planned=planned)
        version = dataset.status.version
        if report is None or not version or report.version != version:
            return Warmth(total_bytes=total, planned=planned, error=error)
        warm = is_warm(report, dataset.spec.warm.told_paths)
        if (part := part_of(report, dataset.spec.warm.told_paths)) is not None:
            return Warmth(part.warm_bytes, part.bytes, warm, planned, report.eta_seconds, error)
        return Warmth(report.warm_bytes, total or report.bytes, warm, planned, report.eta_seconds, error)

    def together(
        self, datasets: Iterable[Dataset], node: str, versions: Mapping[str, str] = MappingProxyType({})
    ) -> Warmth:
        """Return the combined warmth of ``datasets`` on one node. It is warm if each is. The ETA is the longest.

        ``versions``: by key, for Datasets at a version other than the current one.
        """
        parts = [self.of(dataset, node, versions.get(dataset.key, "")) for dataset in datasets]
        etas = [part.eta for part in parts if not part.warm]
        return Warmth(
            warm_bytes=sum(part.warm_bytes for part in parts),
            total_bytes=sum(part.total_bytes for part in parts),
            warm=all(part.warm for part in parts),
            planned=all(part.planned for part in parts),
            eta=None if None in etas else max((eta for eta in etas if eta is not None), default=None),
            error=next((part.error for part in parts if part.error), ""),
        )


def _uids(cache: NodeCache) -> set[str]:
    """Return the Datasets that the operator assigned to a node. Other parts of its report do not count."""
    return {entry.uid for entry in cache.spec.datasets if not entry.adopted}


def _older(report: NodeDatasetStatus | None, version: str, *, planned: bool) -> Warmth:
    """Return the warmth of an older version on a node, which it fetches or still has as its current one."""
    if report is None:
        return Warmth(planned=planned)
    if report.version == version:
        warm = report.phase in _WARM_ENOUGH
        return Warmth(report.warm_bytes, report.bytes, warm, planned, report.eta_seconds)
    row = next((one for one in report.older if one.version == version), None)
    if row is None:
        return Warmth(planned=planned)
    error = row.error.message if row.error is not None else ""
    return Warmth(row.warm_bytes, row.bytes, row.phase in _WARM_ENOUGH, planned, error=error)
