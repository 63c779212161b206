"""The agent's Prometheus metrics. Labels are datasets and closed sets of words."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_api.node_caches.node_storage import NodeMount
from stoker_sidecar.agent.planning.plan import NodePlan
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

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, which no dashboard reads

# Seconds: a bind mount takes milliseconds, a wait for the plan up to a minute.
_BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 30.0, 60.0)


def _path_bytes(row: NodeDatasetStatus) -> float | None:
    return row.warm_paths.bytes if row.warm_paths else None


def _warm_path_bytes(row: NodeDatasetStatus) -> float | None:
    return row.warm_paths.warm_bytes if row.warm_paths else None


def _pinned_bytes(row: NodeDatasetStatus) -> float | None:
    return row.memory.bytes if row.memory else None


def _locked_bytes(row: NodeDatasetStatus) -> float | None:
    return row.memory.locked_bytes if row.memory else None


def _warming(row: NodeDatasetStatus) -> float | None:
    return 1 if row.phase is NodePhase.WARMING else None


def _pinned_names(row: NodeDatasetStatus) -> float | None:
    return row.memory.names if row.memory else None


# Name, help, and value. None means that the Dataset does not use the feature, and has no series.
_FIGURES: tuple[tuple[str, str, Callable[[NodeDatasetStatus], float | None]], ...] = (
    ("stoker_dataset_files", "Files of the current version.", lambda row: row.files),
    ("stoker_dataset_bytes", "Bytes of the current version.", lambda row: row.bytes),
    ("stoker_dataset_warm_files", "Files of the current version on this node.", lambda row: row.warm_files),
    ("stoker_dataset_warm_bytes", "Bytes of the current version on this node.", lambda row: row.warm_bytes),
    ("stoker_dataset_path_bytes", "Bytes selected by warm.paths or warm.list.", _path_bytes),
    ("stoker_dataset_path_warm_bytes", "Bytes selected by warm.paths or warm.list on this node.", _warm_path_bytes),
    ("stoker_dataset_pinned_bytes", "Bytes of files pinned in memory.", _pinned_bytes),
    ("stoker_dataset_locked_bytes", "Bytes of files locked in memory.", _locked_bytes),
    ("stoker_dataset_pinned_names", "File names pinned in memory.", _pinned_names),
    ("stoker_dataset_fetched_files", "Files of the version fetched from the source.", lambda row: row.fetched_files),
    ("stoker_dataset_warming", "1 while the node warms the Dataset.", _warming),
    ("stoker_dataset_bytes_per_second", "Current download rate.", lambda row: row.bytes_per_second),
)

# Counters that every Dataset has from the start, so that rate() sees the first increment.
_COUNTS: tuple[tuple[str, str, str], ...] = (
    ("stoker_listed_objects", "Objects listed in the source.", LISTED_OBJECTS),
    ("stoker_fetched_bytes", "Bytes fetched from the source.", FETCHED_BYTES),
    ("stoker_peer_bytes", "Bytes fetched from other nodes.", PEER_BYTES),
    ("stoker_peer_wrong", "Files and pieces from other nodes that failed verification.", PEER_WRONG),
    ("stoker_demand_reads", "Requests of FUSE servers for bytes missing on this node.", DEMAND_READS),
    ("stoker_fetch_errors", "Pieces that could not be fetched after all retries, by reason.", FETCH_ERRORS),
    ("stoker_scrubbed_bytes", "Bytes on disk verified against their checksums.", SCRUBBED_BYTES),
    ("stoker_repaired_files", "Damaged files found by the scrub.", REPAIRED_FILES),
    ("stoker_evictions", "Versions evicted to make room.", EVICTIONS),
)
# Counters of rarely used features, without a series until they count something.
_FEATURE_COUNTS: tuple[tuple[str, str, str], ...] = (
    ("stoker_ahead_bytes", "Bytes prefetched ahead of readers, warm-up excluded.", AHEAD_BYTES),
    ("stoker_unread_bytes", "Bytes prefetched in a known order and evicted unread.", UNREAD_BYTES),
    ("stoker_unpacked_bytes", "Original size of files with a compressed copy.", UNPACKED_BYTES),
    ("stoker_packed_bytes", "Size of compressed copies.", PACKED_BYTES),
    ("stoker_paged_bytes", "Bytes read into the page cache for mounted files.", PAGED_BYTES),
    ("stoker_foreseen_bytes", "Bytes read into the page cache ahead of readers in a known order.", FORESEEN_BYTES),
)


class AgentMetrics:
    """The agent's metrics. CSI calls are counted as they end; all other figures are read at each scrape.

    ``more`` are additional collectors.
    """

    def __init__(self, plan: NodePlan, mounts: Callable[[], Iterable[NodeMount]], *more: Collector) -> None:
        self._registry = CollectorRegistry()
        for collector in (_StateCollector(plan, mounts), *more):
            self._registry.register(collector)
        ProcessCollector(registry=self._registry)
        build = Gauge(
            "stoker_build_info",
            "Version of Stoker; the value is always 1.",
            ("component", "version"),
            registry=self._registry,
        )
        build.labels("sidecar", version("stoker")).set(1)
        self._calls = Counter(
            "stoker_csi_calls", "CSI calls of the kubelet, by gRPC code.", ("method", "code"), registry=self._registry
        )
        self._seconds = Histogram(
            "stoker_csi_call_seconds",
            "Duration of CSI calls of the kubelet.",
            ("method",),
            registry=self._registry,
            buckets=_BUCKETS,
        )

    def observe_call(self, method: str, code: str, seconds: float) -> None:
        """Count a finished CSI call with its gRPC code."""
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
        yield GaugeMetricFamily("stoker_cache_used_bytes", "Bytes of the cache disk used by Datasets.", disk.used)
        yield GaugeMetricFamily(
            "stoker_cache_available_bytes", "Bytes of the cache disk available to Datasets.", disk.available
        )
        memory = self._plan.memory
        yield GaugeMetricFamily(
            "stoker_memory_allowed_bytes", "Bytes of memory that Datasets may pin.", memory.allowed_bytes
        )
        yield GaugeMetricFamily(
            "stoker_memory_pinned_bytes", "Bytes of memory pinned by Datasets.", memory.pinned_bytes
        )
        yield GaugeMetricFamily(
            "stoker_fetcher_connected", "1 while the fetcher process responds.", int(self._plan.fetcher_connected)
        )
        yield from self._origins()
        yield from (self._figure(*figure) for figure in _FIGURES)
        yield from (self._count(*count) for count in _COUNTS)
        yield from (self._count(*count, zeros=False) for count in _FEATURE_COUNTS)
        yield self._folders()
        yield from self._errors()
        yield self._mounts_by_mode()

    def _origins(self) -> Iterator[Metric]:
        counts = self._plan.origin_counts
        text = "Requests to object stores delayed by a rate limit of this node."
        yield CounterMetricFamily("stoker_origin_held_requests", text, counts.held)
        yield GaugeMetricFamily(
            "stoker_origin_waiting_requests",
            "Requests to object stores that wait for a rate limit now.",
            counts.waiting,
        )
        text = "SlowDown answers of object stores that lowered the request rate of this node."
        yield CounterMetricFamily("stoker_origin_slowdowns", text, counts.slowdowns)

    def _figure(self, name: str, text: str, value: Callable[[NodeDatasetStatus], float | None]) -> Metric:
        family = GaugeMetricFamily(name, text, labels=("namespace", "dataset"))
        for row in self._plan.rows.values():
            if (figure := value(row)) is not None:
                family.add_metric((row.namespace, row.name), figure)
        return family

    def _count(self, name: str, text: str, key: str, *, zeros: bool = True) -> Metric:
        """Return a counter of all Datasets. Only errors have a reason, which is from a closed set."""
        labelled = key == FETCH_ERRORS
        labels = ("namespace", "dataset", "reason") if labelled else ("namespace", "dataset")
        family = CounterMetricFamily(name, text, labels=labels)
        for uid, found, label, value in self._plan.counts:
            row = self._plan.rows.get(uid)
            if found == key and row is not None and (value or zeros):
                family.add_metric((row.namespace, row.name, *([label] if labelled else [])), value)
        return family

    def _folders(self) -> Metric:
        text = "1 while the cache folder is in service, 0 after a failure."
        family = GaugeMetricFamily("stoker_cache_folder_healthy", text, labels=("path",))
        for folder in self._plan.folders:
            family.add_metric((folder.path,), int(folder.healthy))
        return family

    def _errors(self) -> Iterator[Metric]:
        labels = ("namespace", "dataset", "reason")
        text = "Datasets with errors, by reason; the value is always 1."
        errors = GaugeMetricFamily("stoker_dataset_error", text, labels=labels)
        text = "Datasets whose pods' reads fail or wait for the source, by reason; the value is always 1."
        reads = GaugeMetricFamily("stoker_dataset_failing_reads", text, labels=labels)
        for row in self._plan.rows.values():
            if row.error is not None:
                errors.add_metric((row.namespace, row.name, row.error.reason), 1)
            if row.failing_reads is not None:
                reads.add_metric((row.namespace, row.name, row.failing_reads.reason), 1)
        yield from (errors, reads)

    def _mounts_by_mode(self) -> Metric:
        family = GaugeMetricFamily("stoker_mounts", "Mounted volumes of pods, by mode.", labels=("mode",))
        tally = Tally(mount.mode.value if mount.mode else mount.phase.value.lower() for mount in self._mounts())
        for mode, count in sorted(tally.items()):
            family.add_metric((mode,), count)
        return family
