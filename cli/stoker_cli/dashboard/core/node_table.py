"""All nodes in little memory: from each NodeCache, the figures that tables and the warm map need."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker_api.datasets.dataset import Dataset
from stoker_api.node_caches.node_dataset_status import NodePhase

Object = Mapping[str, Any]

_PHASES = ("", *(phase.value for phase in NodePhase))
_CODES = {phase: code for code, phase in enumerate(_PHASES)}
_WARM = frozenset({NodePhase.WARM.value, NodePhase.PATHS_WARM.value})
WARM_CODES = frozenset(_CODES[phase] for phase in _WARM)
FAILED_CODE = _CODES[NodePhase.FAILED]


_MOST_ORIGINS = 1000


class DatasetIndex:
    """Positions of Datasets in the cells of all nodes. It only grows."""

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}

    def add(self, key: str) -> int:
        """Return the position of a Dataset, which may be new."""
        return self._positions.setdefault(key, len(self._positions))

    def find(self, key: str) -> int:
        """Return the position of a Dataset, or -1."""
        return self._positions.get(key, -1)


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """A node. ``cells``: per position of the index, the phase's code and the warm percent. Sizes are in bytes."""

    name: str
    ready: bool = True
    message: str = ""  # why it is not ready
    used: int = 0
    capacity: int = 0
    held: int = 0  # Datasets
    failing: int = 0  # Datasets with an error
    cells: bytes = b""


@dataclass(frozen=True)
class OriginSummary:
    """An object store, and what all nodes want of it per second. ``fetching``: nodes that fetch from it now."""

    name: str
    nodes: int = 0
    fetching: int = 0
    wanted_bytes: int = 0
    wanted_requests: float = 0.0
    throttled_at: str = ""  # the last SlowDown at a node, RFC 3339

    def plus(self, row: Object) -> "OriginSummary":
        """Add the row of a node."""
        return OriginSummary(
            self.name,
            self.nodes + 1,
            self.fetching + bool(row.get("fetching")),
            self.wanted_bytes + int(row.get("bytesPerSecond") or 0),
            self.wanted_requests + int(row.get("milliRequestsPerSecond") or 0) / 1000,
            max(self.throttled_at, str(row.get("throttledAt") or "")[:40]),
        )


@dataclass(frozen=True)
class NodeTable:
    """All nodes by name. ``source`` and ``peers``: bytes that reached each Dataset since the fetchers started.

    ``workloads``: rows of pods by node, from the NodeCaches.
    """

    nodes: tuple[NodeSummary, ...] = ()
    index: DatasetIndex = field(default_factory=DatasetIndex, compare=False)
    source: Mapping[str, int] = field(default_factory=dict)
    peers: Mapping[str, int] = field(default_factory=dict)
    workloads: tuple[tuple[str, Object], ...] = ()
    origins: tuple[OriginSummary, ...] = ()


class NodePass:
    """One pass over all NodeCaches, page by page."""

    def __init__(self, index: DatasetIndex) -> None:
        self._index = index
        self._nodes: list[NodeSummary] = []
        self._source: dict[str, int] = {}
        self._peers: dict[str, int] = {}
        self._workloads: list[tuple[str, Object]] = []
        self._origins: dict[str, OriginSummary] = {}

    def add(self, items: Iterable[Object]) -> None:
        """Add raw NodeCaches."""
        for item in items:
            status = item.get("status") or {}
            name = str(item["metadata"]["name"])
            self._nodes.append(self._summary(name, status))
            self._workloads += [(name, row) for row in status.get("workloads") or ()]
            for row in status.get("origins") or ():
                self._add_origin(row)

    def table(self) -> NodeTable:
        """Return the nodes so far."""
        nodes = tuple(sorted(self._nodes, key=lambda node: node.name))
        origins = tuple(self._origins[name] for name in sorted(self._origins))
        return NodeTable(nodes, self._index, dict(self._source), dict(self._peers), tuple(self._workloads), origins)

    def _add_origin(self, row: Object) -> None:
        name = str(row.get("name"))
        if name in self._origins or len(self._origins) < _MOST_ORIGINS:
            self._origins[name] = self._origins.get(name, OriginSummary(name)).plus(row)

    def _summary(self, name: str, status: Object) -> NodeSummary:
        cells, held, failing = bytearray(), 0, 0
        for row in status.get("datasets") or ():
            key = f"{row.get('namespace')}/{row.get('name')}"
            _set_cell(cells, self._index.add(key), str(row.get("phase", "Pending")), _percent(row))
            held += 1
            failing += bool(row.get("error") or row.get("failingReads"))
            for sums, label in ((self._source, "sourceBytes"), (self._peers, "peerBytes")):
                if row.get(label):
                    sums[key] = sums.get(key, 0) + int(row[label])
        ready, message = _ready(status)
        sizes = int(status.get("usedBytes") or 0), int(status.get("capacityBytes") or 0)
        return NodeSummary(name, ready, message, *sizes, held, failing, bytes(cells))


def nodes_of_datasets(datasets: Iterable[Dataset], index: DatasetIndex) -> NodeTable:
    """Return the nodes that statuses of Datasets name, for users who may not read NodeCaches."""
    cells: dict[str, bytearray] = {}
    counts: dict[str, list[int]] = {}
    for dataset in datasets:
        position, total = index.add(dataset.key), _size(dataset)
        for row in dataset.status.nodes:
            percent = 100 * row.warm_bytes // total if total else 100 * (row.phase in _WARM)
            _set_cell(cells.setdefault(row.name, bytearray()), position, row.phase, percent)
            count = counts.setdefault(row.name, [0, 0])
            count[0] += 1
            count[1] += bool(row.last_error)
    nodes = (
        NodeSummary(name, held=counts[name][0], failing=counts[name][1], cells=bytes(cells[name]))
        for name in sorted(cells)
    )
    return NodeTable(tuple(nodes), index)


def cells_of(nodes: Iterable[NodeSummary], position: int) -> Iterator[tuple[int, int]]:
    """Yield the phase code and the warm percent of the nodes that hold a Dataset. Fast, for thousands of nodes."""
    at = 2 * position
    if position < 0:
        return
    for node in nodes:
        cells = node.cells
        if at < len(cells) and cells[at]:
            yield cells[at], cells[at + 1]


def _set_cell(cells: bytearray, position: int, phase: str, percent: int) -> None:
    missing = 2 * position + 2 - len(cells)
    cells.extend(bytes(max(0, missing)))
    cells[2 * position] = _CODES.get(phase) or _CODES[NodePhase.PENDING]
    cells[2 * position + 1] = min(100, max(0, percent))


def _percent(row: Object) -> int:
    part = row.get("warmPaths") or row
    total, warm = int(part.get("bytes") or 0), int(part.get("warmBytes") or 0)
    return 100 * warm // total if total else 100 * (row.get("phase") in _WARM)


def _size(dataset: Dataset) -> int:
    part = dataset.status.warm_paths
    return part.bytes if part is not None else dataset.status.bytes or 0


def _ready(status: Object) -> tuple[bool, str]:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready":
            return condition.get("status") == "True", str(condition.get("message") or "")
    return False, "The sidecar has not reported yet."
