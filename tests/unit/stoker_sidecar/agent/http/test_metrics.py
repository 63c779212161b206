"""The metrics series of a Dataset on a node."""

from typing import Any
from unittest import mock

from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_api.node_caches.node_workload import EvidenceSource
from stoker_sidecar.agent.http.metrics import AgentMetrics
from stoker_sidecar.agent.http.observation_metrics import ObservationCollector
from stoker_sidecar.agent.observation.workloads import SourceCounts
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.wire.fetcher_protocol import EVICTIONS, PACKED_BYTES, Count, Progress
from tests.support.cases import cases

LABELS = '{dataset="digits",namespace="vision"}'


def plan_of(packed: int = 0, **figures: Any) -> NodePlan:
    """Make a plan with the figures of one Dataset."""
    row = NodeDatasetStatus.model_validate({"namespace": "vision", "name": "digits", "uid": "u"} | figures)
    plan = NodePlan()
    counts = (Count("u", PACKED_BYTES, "", packed), Count("u", EVICTIONS, "", 0))
    plan.take_progress(Progress((row.wire(),), counts=counts))
    return plan


def series(plan: NodePlan, counts: dict[tuple[str, EvidenceSource], SourceCounts] | None = None) -> list[str]:
    """Return the lines of all series. ``counts``: reads of pods."""
    observation = mock.Mock(rows=())
    observation.workloads.counts = counts or {}
    text = AgentMetrics(plan, tuple, ObservationCollector(plan, observation)).render().decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


@cases(
    "name, unused, used",
    ("stoker_packed_bytes_total", plan_of(), plan_of(packed=7)),
    ("stoker_dataset_pinned_bytes", plan_of(), plan_of(memory={"bytes": 7})),
    ("stoker_dataset_path_bytes", plan_of(), plan_of(warmPaths={"bytes": 7})),
)
def test_a_feature_has_a_series_where_it_is_used(name: str, unused: NodePlan, used: NodePlan) -> None:
    assert not any(line.startswith(name) for line in series(unused))
    assert f"{name}{LABELS} 7.0" in series(used)


@cases(
    "quiet, raised, line",
    warming=(plan_of(phase="Warm"), plan_of(phase="Warming"), f"stoker_dataset_warming{LABELS} 1.0"),
    failing_reads=(
        plan_of(error={"reason": "AccessDenied", "message": "no"}),
        plan_of(failingReads={"reason": "AccessDenied"}),
        'stoker_dataset_failing_reads{dataset="digits",namespace="vision",reason="AccessDenied"} 1.0',
    ),
)
def test_a_state_has_a_series_while_it_lasts(quiet: NodePlan, raised: NodePlan, line: str) -> None:
    assert line not in series(quiet)
    assert line in series(raised)


def test_a_counter_that_alerts_watch_starts_at_zero() -> None:
    assert f"stoker_evictions_total{LABELS} 0.0" in series(plan_of())


def test_reads_through_fuse_are_exact_and_sizes_of_opened_files_estimated() -> None:
    counts = {
        ("u", EvidenceSource.FUSE): SourceCounts(opens=1, reads=5, bytes=70),
        ("u", EvidenceSource.FANOTIFY): SourceCounts(opens=3, lost=2),
    }
    found = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in series(plan_of(files=4, bytes=400), counts)
    }
    by_source = {
        source: f'{{dataset="digits",namespace="vision",source="{source}"}}' for source in ("fuse", "fanotify")
    }
    assert found[f"stoker_fuse_read_bytes_total{by_source['fuse']}"] == 70
    assert found[f"stoker_opened_file_bytes_total{by_source['fanotify']}"] == 300
    assert f"stoker_fuse_reads_total{by_source['fanotify']}" not in found
    assert f"stoker_observer_lost_total{by_source['fuse']}" not in found
