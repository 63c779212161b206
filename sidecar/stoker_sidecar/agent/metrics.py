"""The agent's Prometheus metrics, labelled by dataset and by closed sets of words only."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stoker_api.cache_memory import PinnedMemory
from stoker_api.node_storage import NodeMount
from stoker_api.nodecache import NodeDatasetStatus
from stoker_api.warm_paths import WarmPathsStatus
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.wire.fetcher_protocol import (
    AHEAD_BYTES,
    DEMAND_READS,
    EVICTIONS,
    FETCH_ERRORS,
    FETCHED_BYTES,
    FORESEEN_BYTES,
    LISTED_OBJECTS,
    PACKED_BYTES,
    PAGED_BYTES,
    PEER_BYTES,
    PEER_WRONG,
    REPAIRED_FILES,
    SCRUBBED_BYTES,
    UNPACKED_BYTES,
    UNREAD_BYTES,
)

# Seconds: a bind mount takes milliseconds, a wait for the plan up to a minute.
_BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 30.0, 60.0)


def _part(row: NodeDatasetStatus) -> WarmPathsStatus:
    return row.warm_paths or WarmPathsStatus()


def _pinned(row: NodeDatasetStatus) -> PinnedMemory:
    return row.memory or PinnedMemory()


_FIGURES: tuple[tuple[str, str, Callable[[NodeDatasetStatus], float]], ...] = (
    ("stoker_dataset_files", "Files of the version.", lambda row: row.files),
    ("stoker_dataset_bytes", "Bytes of the version.", lambda row: row.bytes),
    ("stoker_dataset_warm_files", "Files of the version on this node.", lambda row: row.warm_files),
    ("stoker_dataset_warm_bytes", "Bytes of the version on this node.", lambda row: row.warm_bytes),
    ("stoker_dataset_path_bytes", "Bytes that warm.paths names.", lambda row: _part(row).bytes),
    ("stoker_dataset_path_warm_bytes", "Bytes of that on this node.", lambda row: _part(row).warm_bytes),
    ("stoker_dataset_pinned_bytes", "Bytes of contents that stay in memory.", lambda row: _pinned(row).bytes),
    ("stoker_dataset_locked_bytes", "Of these, what the kernel may not take.", lambda row: _pinned(row).locked_bytes),
    ("stoker_dataset_pinned_names", "Names that stay in memory.", lambda row: _pinned(row).names),
    ("stoker_dataset_fetched_files", "Files of the version fetched from the source.", lambda row: row.fetched_files),
    ("stoker_dataset_bytes_per_second", "Speed of fetching.", lambda row: row.bytes_per_second),
)

_COUNTS: tuple[tuple[str, str, str], ...] = (
    ("stoker_listed_objects", "Objects that listings of the source found, so far.", LISTED_OBJECTS),
    ("stoker_fetched_bytes", "Bytes that came from the source.", FETCHED_BYTES),
    ("stoker_peer_bytes", "Bytes of files that other nodes gave, instead of the source.", PEER_BYTES),
    ("stoker_peer_wrong", "Files and pieces that other nodes gave and that were not as the source says.", PEER_WRONG),
    ("stoker_ahead_bytes", "Bytes that were fetched before any reader asked for them, without warm-up.", AHEAD_BYTES),
    ("stoker_unread_bytes", "Bytes fetched ahead in a known order and dropped before any reader asked.", UNREAD_BYTES),
    ("stoker_demand_reads", "Requests of file systems for bytes that were not known to be on this node.", DEMAND_READS),
    ("stoker_fetch_errors", "Pieces that could not be fetched, after their retries, by reason.", FETCH_ERRORS),
    ("stoker_scrubbed_bytes", "Bytes on the disk that were compared with their checksums.", SCRUBBED_BYTES),
    ("stoker_repaired_files", "Files that the scrub found damaged.", REPAIRED_FILES),
    ("stoker_unpacked_bytes", "Bytes of files of which compressed copies are kept, found or made.", UNPACKED_BYTES),
    ("stoker_packed_bytes", "Bytes of these copies.", PACKED_BYTES),
    ("stoker_paged_bytes", "Bytes read into the page cache for pods that have mounted them.", PAGED_BYTES),
    ("stoker_foreseen_bytes", "Bytes read into the page cache ahead of readers in a known order.", FORESEEN_BYTES),
    ("stoker_evictions", "Versions dropped to make room for others.", EVICTIONS),
)


class AgentMetrics:
    """The agent's metrics: counts CSI calls as they end; everything else is read when someone scrapes.

    ``others``: collectors beside that of the plan.
    """

    def __init__(self, plan: NodePlan, mounts: Callable[[], Iterable[NodeMount]], *others: Collector) -> None:
        self._registry = CollectorRegistry()
        for collector in (_StateCollector(plan, mounts), *others):
            self._registry.register(collector)
        self._calls = Counter(
            "stoker_csi_calls", "Calls of the kubelet, by outcome.", ("method", "code"), registry=self._registry
        )
        self._seconds = Histogram(
            "stoker_csi_call_seconds", "How long they took.", ("method",), registry=self._registry, buckets=_BUCKETS
        )

    def observe_call(self, method: str, code: str, seconds: float) -> None:
        """Count a CSI call that ended with the gRPC code of that name."""
        self._calls.labels(method, code).inc()
        self._seconds.labels(method).observe(seconds)

    def render(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class _StateCollector(Collector):
    def __init__(self, plan: NodePlan, mounts: Callable[[], Iterable[NodeMount]]) -> None:
        self._plan = plan
        self._mounts = mounts

    def collect(self) -> Iterator[Metric]:
        disk = self._plan.disk
        yield GaugeMetricFamily("stoker_cache_capacity_bytes", "Size of the cache disk.", disk.capacity)
        yield GaugeMetricFamily("stoker_cache_used_bytes", "Bytes that datasets take on it.", disk.used)
        yield GaugeMetricFamily("stoker_cache_available_bytes", "Bytes that new datasets may take.", disk.available)
        memory = self._plan.memory
        yield GaugeMetricFamily("stoker_memory_allowed_bytes", "What Datasets may pin.", memory.allowed_bytes)
        yield GaugeMetricFamily("stoker_memory_pinned_bytes", "What they have pinned.", memory.pinned_bytes)
        yield GaugeMetricFamily(
            "stoker_fetcher_connected", "1 while the fetcher answers.", int(self._plan.fetcher_connected)
        )
        yield from self._origins()
        yield from (self._figure(*figure) for figure in _FIGURES)
        yield from (self._count(*count) for count in _COUNTS)
        yield self._folders()
        yield self._errors()
        yield self._mounts_by_mode()

    def _origins(self) -> Iterator[Metric]:
        counts = self._plan.origin_counts
        text = "Requests for object stores that had to wait for their turn at this node."
        yield CounterMetricFamily("stoker_origin_held_requests", text, counts.held)
        yield GaugeMetricFamily("stoker_origin_waiting_requests", "Those that wait now.", counts.waiting)
        text = "Times that an object store asked for less (SlowDown), and this node went slower."
        yield CounterMetricFamily("stoker_origin_slowdowns", text, counts.slowdowns)

    def _figure(self, name: str, text: str, value: Callable[[NodeDatasetStatus], float]) -> Metric:
        family = GaugeMetricFamily(name, text, labels=("namespace", "dataset"))
        for row in self._plan.rows.values():
            family.add_metric((row.namespace, row.name), value(row))
        return family

    def _count(self, name: str, text: str, key: str) -> Metric:
        """Only errors have a reason; it is a word of a closed set."""
        labelled = key == FETCH_ERRORS
        labels = ("namespace", "dataset", "reason") if labelled else ("namespace", "dataset")
        family = CounterMetricFamily(name, text, labels=labels)
        for uid, found, label, value in self._plan.counts:
            row = self._plan.rows.get(uid)
            if found == key and row is not None:
                family.add_metric((row.namespace, row.name, *([label] if labelled else [])), value)
        return family

    def _folders(self) -> Metric:
        text = "1 while the cache folder is in service."
        family = GaugeMetricFamily("stoker_cache_folder_healthy", text, labels=("path",))
        for folder in self._plan.folders:
            family.add_metric((folder.path,), int(folder.healthy))
        return family

    def _errors(self) -> Metric:
        text = "1 for each dataset that does not get on, by the reason."
        family = GaugeMetricFamily("stoker_dataset_error", text, labels=("namespace", "dataset", "reason"))
        for row in self._plan.rows.values():
            if row.error is not None:
                family.add_metric((row.namespace, row.name, row.error.reason), 1)
        return family

    def _mounts_by_mode(self) -> Metric:
        family = GaugeMetricFamily("stoker_mounts", "Volumes of pods, by mode.", labels=("mode",))
        tally = Tally(mount.mode.value if mount.mode else mount.phase.value.lower() for mount in self._mounts())
        for mode, count in sorted(tally.items()):
            family.add_metric((mode,), count)
        return family
