"""Prometheus metrics of what pods read, labelled by dataset and by closed sets of words only."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stoker_sidecar.agent.observation import Observation
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.agent.workloads import SourceCounts

_COUNTS: tuple[tuple[str, str, Callable[[SourceCounts], float]], ...] = (
    ("stoker_opened_files", "Files that pods opened, estimated where a sample is seen.", lambda counts: counts.opens),
    ("stoker_fuse_reads", "Reads that a FUSE server answered.", lambda counts: counts.reads),
    ("stoker_fuse_read_bytes", "Bytes that these reads asked for.", lambda counts: counts.bytes),
    ("stoker_observer_lost", "Times that more was opened than was looked at.", lambda counts: counts.lost),
)


class ObservationCollector(Collector):
    """What was seen of reads, when someone scrapes."""

    def __init__(self, plan: NodePlan, observation: Observation) -> None:
        self._plan = plan
        self._observation = observation

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        yield from (self._count(*count) for count in _COUNTS)
        yield self._speed()
        yield self._stall()

    def _count(self, name: str, text: str, value: Callable[[SourceCounts], float]) -> Metric:
        family = CounterMetricFamily(name, text, labels=("namespace", "dataset", "source"))
        for (uid, source), counts in self._observation.workloads.counts.items():
            row = self._plan.rows.get(uid)
            if row is not None:
                family.add_metric((row.namespace, row.name, source.value), value(counts))
        return family

    def _speed(self) -> Metric:
        text = "Files a second that its workloads on this node open, estimated where a sample is seen."
        family = GaugeMetricFamily("stoker_dataset_items_per_second", text, labels=("namespace", "dataset"))
        speeds: dict[str, float] = {}
        for row in self._observation.rows:
            for name in row.datasets[:1]:
                speeds[name] = speeds.get(name, 0.0) + (row.items_per_second or 0.0)
        for name, value in speeds.items():
            family.add_metric(name.split("/", 1), value)
        return family

    def _stall(self) -> Metric:
        text = "Share of its time that the workload which waits most on this node waits for data, 0 to 1."
        family = GaugeMetricFamily("stoker_dataset_stall_ratio", text, labels=("namespace", "dataset"))
        stalls: dict[str, float] = {}
        for row in self._observation.rows:
            for name in row.datasets[:1]:
                if row.stall_percent is not None:
                    stalls[name] = max(stalls.get(name, 0.0), row.stall_percent / 100)
        for name, value in stalls.items():
            family.add_metric(name.split("/", 1), value)
        return family
