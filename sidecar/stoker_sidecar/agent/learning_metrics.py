"""Prometheus metrics of workloads and of what is learned, labelled by closed sets of words only."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stoker_api.node_workload import NodeWorkload
from stoker_api.workload_totals import workload_totals
from stoker_sidecar.agent.node_learning import NodeLearning
from stoker_tuning.recommend.knobs import KNOB_BY_NAME

Counts = Mapping[tuple[str, ...], int]


def _changes(learning: NodeLearning) -> Counts:
    return {key: count for key, count in learning.changes.items() if key[0] in KNOB_BY_NAME}


def _phases(learning: NodeLearning) -> Counts:
    return {(phase,): count for phase, count in learning.phases.changes.items()}


def _predictions(learning: NodeLearning) -> Counts:
    return {("hit" if hit else "miss",): learning.phases.hits[hit] for hit in (True, False)}


_COUNTS: tuple[tuple[str, str, tuple[str, ...], Callable[[NodeLearning], Counts]], ...] = (
    ("stoker_tuning_changes", "Changes of knobs that came to something, by verdict.", ("knob", "verdict"), _changes),
    ("stoker_phase_changes", "Phases of workloads that began.", ("phase",), _phases),
    ("stoker_phase_predictions", "Foreseen phases, by whether they came.", ("result",), _predictions),
)


class LearningCollector(Collector):
    """What workloads do and what was learned, when someone scrapes. ``rows``: of the node's workloads."""

    def __init__(self, learning: NodeLearning, rows: Callable[[], Iterable[NodeWorkload]]) -> None:
        self._learning = learning
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        text = "Pods of this node of which is known what they do, by phase."
        workloads = GaugeMetricFamily("stoker_workloads", text, labels=("phase",))
        for phase, count in workload_totals(self._rows()).by_phase.items():
            workloads.add_metric((phase,), count)
        yield workloads
        for name, text, labels, counts in _COUNTS:
            family = CounterMetricFamily(name, text, labels=labels)
            for values, count in sorted(counts(self._learning).items()):
                family.add_metric(values, count)
            yield family
