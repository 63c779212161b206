"""Prometheus metrics of pods' reads. Labels are datasets and closed sets of words."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_api.node_caches.node_workload import EvidenceSource, NodeWorkload
from stoker_api.node_caches.workload_totals import workload_totals
from stoker_sidecar.agent.http.peers.peer_files import PeerFiles, PeerRefusal
from stoker_sidecar.agent.learning.node_learning import NodeLearning
from stoker_sidecar.agent.observation.observation import Observation
from stoker_sidecar.agent.observation.workloads import SourceCounts
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins
from stoker_tuning.recommend.knobs import KNOB_BY_NAME

_ASKED = "Questions to plug-ins, by result: answered or refused."
_SECONDS = "Duration of all questions to plug-ins."
_OUT = "1 for each plug-in with an error; see status.plugins and status.orderPlugins of the NodeCache."


class PluginCollector(Collector):
    """Results of questions to plug-ins."""

    def __init__(self, plugins: NodePlugins) -> None:
        self._plugins = plugins

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        asked = CounterMetricFamily("stoker_plugin_questions", _ASKED, labels=("kind", "plugin", "result"))
        for (key, result), count in sorted(self._plugins.counts.items()):
            asked.add_metric((*key, result), count)
        yield asked
        seconds = CounterMetricFamily("stoker_plugin_seconds", _SECONDS, labels=("kind", "plugin"))
        for key, sum_of in sorted(self._plugins.seconds.items()):
            seconds.add_metric(key, sum_of)
        yield seconds
        out = GaugeMetricFamily("stoker_plugin_left_out", _OUT, labels=("kind", "plugin"))
        for key, wrong in self._plugins.wrong().items():
            out.add_metric(key, int(wrong))
        yield out


class PeerCollector(Collector):
    """Collects bytes sent to other nodes, and refused requests."""

    def __init__(self, plan: NodePlan, files: PeerFiles) -> None:
        self._plan = plan
        self._files = files

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        text = "Bytes sent to other nodes."
        sent = CounterMetricFamily("stoker_peer_sent_bytes", text, labels=("namespace", "dataset"))
        for uid, dataset in self._plan.planned.items():
            sent.add_metric((dataset.namespace, dataset.name), self._files.given[uid])
        yield sent
        text = "Refused requests of other nodes, by reason."
        refused = CounterMetricFamily("stoker_peer_refused", text, labels=("reason",))
        for reason in PeerRefusal:
            refused.add_metric((reason,), self._files.refused[reason])
        yield refused


Counts = Mapping[tuple[str, ...], int]


def _changes(learning: NodeLearning) -> Counts:
    return {key: count for key, count in learning.changes.items() if key[0] in KNOB_BY_NAME}


def _phases(learning: NodeLearning) -> Counts:
    return {(phase,): count for phase, count in learning.phases.changes.items()}


def _predictions(learning: NodeLearning) -> Counts:
    return {("hit" if hit else "miss",): learning.phases.hits[hit] for hit in (True, False)}


_COUNTS_OF_LEARNING_METRICS: tuple[tuple[str, str, tuple[str, ...], Callable[[NodeLearning], Counts]], ...] = (
    ("stoker_tuning_changes", "Tuning changes with a verdict, by knob and verdict.", ("knob", "verdict"), _changes),
    ("stoker_phase_changes", "Started training phases of pods.", ("phase",), _phases),
    ("stoker_phase_predictions", "Predicted training phases, by result.", ("result",), _predictions),
)


class LearningCollector(Collector):
    """Collects workloads' phases and tuning results. ``rows`` returns the node's workloads."""

    def __init__(self, learning: NodeLearning, rows: Callable[[], Iterable[NodeWorkload]]) -> None:
        self._learning = learning
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        text = "Pods of this node whose training phase is known, by phase."
        workloads = GaugeMetricFamily("stoker_workloads", text, labels=("phase",))
        for phase, count in workload_totals(self._rows()).by_phase.items():
            workloads.add_metric((phase,), count)
        yield workloads
        for name, text, labels, counts in _COUNTS_OF_LEARNING_METRICS:
            family = CounterMetricFamily(name, text, labels=labels)
            for values, count in sorted(counts(self._learning).items()):
                family.add_metric(values, count)
            yield family


_OPENED = "Files opened by pods; an estimate where the source is a sample (fanotify)."
_SIZES = "Size of the files opened by pods, estimated as opened files times the mean file size of the version."
_LOST = "Overflows of the queue of observed file opens; counts of opened files are too low then."
# Name, help, the one source with this figure, and the value.
_COUNTS: tuple[tuple[str, str, EvidenceSource | None, Callable[[SourceCounts], float]], ...] = (
    ("stoker_opened_files", _OPENED, None, lambda counts: counts.opens),
    ("stoker_fuse_reads", "Reads answered by FUSE servers.", EvidenceSource.FUSE, lambda counts: counts.reads),
    ("stoker_fuse_read_bytes", "Bytes requested by these reads.", EvidenceSource.FUSE, lambda counts: counts.bytes),
    ("stoker_observer_lost", _LOST, EvidenceSource.FANOTIFY, lambda counts: counts.lost),
)


class ObservationCollector(Collector):
    """Collects observed reads."""

    def __init__(self, plan: NodePlan, observation: Observation) -> None:
        self._plan = plan
        self._observation = observation
        self._sizes = OpenedSizes()

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        yield from (self._count(*count) for count in _COUNTS)
        yield self._opened_bytes()
        yield self._speed()
        yield self._stall()

    def _count(
        self, name: str, text: str, only: EvidenceSource | None, value: Callable[[SourceCounts], float]
    ) -> Metric:
        family = CounterMetricFamily(name, text, labels=("namespace", "dataset", "source"))
        for row, source, counts in self._counts():
            if only in (None, source):
                family.add_metric((row.namespace, row.name, source.value), value(counts))
        return family

    def _opened_bytes(self) -> Metric:
        family = CounterMetricFamily("stoker_opened_file_bytes", _SIZES, labels=("namespace", "dataset", "source"))
        for row, source, counts in self._counts():
            size = self._sizes.add((row.uid, source), counts.opens, row.bytes / row.files if row.files else 0.0)
            family.add_metric((row.namespace, row.name, source.value), size)
        return family

    def _counts(self) -> Iterator[tuple[NodeDatasetStatus, EvidenceSource, SourceCounts]]:
        for (uid, source), counts in self._observation.workloads.counts.items():
            row = self._plan.rows.get(uid)
            if row is not None:
                yield row, source, counts

    def _speed(self) -> Metric:
        text = "Files opened per second by the pods of this node; an estimate where a sample is observed."
        family = GaugeMetricFamily("stoker_dataset_items_per_second", text, labels=("namespace", "dataset"))
        speeds: dict[str, float] = {}
        for row in self._observation.rows:
            for name in row.datasets[:1]:
                speeds[name] = speeds.get(name, 0.0) + (row.items_per_second or 0.0)
        for name, value in speeds.items():
            family.add_metric(name.split("/", 1), value)
        return family

    def _stall(self) -> Metric:
        text = "Share of time spent waiting for data by the pod of this node that waits most, 0 to 1."
        family = GaugeMetricFamily("stoker_dataset_stall_ratio", text, labels=("namespace", "dataset"))
        stalls: dict[str, float] = {}
        for row in self._observation.rows:
            for name in row.datasets[:1]:
                if row.stall_percent is not None:
                    stalls[name] = max(stalls.get(name, 0.0), row.stall_percent / 100)
        for name, value in stalls.items():
            family.add_metric(name.split("/", 1), value)
        return family


class OpenedSizes:
    """Bytes of opened files, estimated from counts of opens. A version with smaller files changes only later opens."""

    def __init__(self) -> None:
        self._known: Final[dict[Hashable, tuple[float, float]]] = {}

    def add(self, key: Hashable, opens: float, mean_bytes: float) -> float:
        """Return the bytes so far. ``opens`` is the total count, which restarts at 0 after a reset of its counter."""
        before, size = self._known.get(key, (0.0, 0.0))
        size += (opens - before if opens >= before else opens) * mean_bytes
        self._known[key] = opens, size
        return size
