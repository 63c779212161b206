"""The operator's Prometheus metrics; labels are bounded by code, never by users' objects."""

from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram

from stoker_api.goodput import Goodput
from stoker_api.workload_totals import WorkloadTotals

LEADER = Gauge("stoker_leader", "1 on the replica that acts, 0 on the one that stands by.")
RECONCILE_SECONDS = Histogram("stoker_reconcile_seconds", "Duration of one pass of a reconcile loop.", ["loop"])
RECONCILE_ERRORS = Counter("stoker_reconcile_errors", "Passes that failed and were tried again.", ["loop"])
UNREADABLE = Counter("stoker_unreadable_objects", "Objects that could not be read, which stay as they were.", ["kind"])
LOOP_BLOCKED = Histogram(
    "stoker_loop_blocked_seconds",
    "Turns of the event loop of 5 ms or more: how long they were (wall), and how much of it the loop computed (cpu).",
    ["clock"],
    buckets=(0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10),
)
FAILING = Gauge("stoker_failing_actions", "Actions on single objects that failed the last time.", ["loop"])
WRITES = Counter("stoker_writes", "Objects written to the API server.", ["kind", "verb"])
DATASETS = Gauge("stoker_datasets", "Datasets by phase.", ["phase"])
UNSCHEDULABLE = Gauge(
    "stoker_unschedulable_pods", "Released pods that the scheduler has found no node for, for a minute."
)
WORKLOADS = Gauge("stoker_cluster_workloads", "Pods of which is known what they do, by phase.", ["phase"])
ACTIVE = Gauge("stoker_cluster_active_workloads", "Those of them that read data lately.")
TUNED = Gauge("stoker_cluster_tuned_workloads", "Those for which a change came to something.")
EPOCHS = Gauge("stoker_cluster_epochs", "Epochs that are behind them.")
BATCHES = Gauge("stoker_cluster_batches", "Batches that are behind them.")
OBJECTS = Gauge("stoker_mirrored_objects", "Objects held in memory, by table.", ["table"])

JOBS_REPORTED = Counter("stoker_jobs_reported", "TrainingJobs that have ended and whose goodput is known.")
JOBS_HELD = Counter("stoker_jobs_held_seconds", "The longest hold of each of them at the scheduling gate.")
JOBS_WATCHED = Counter("stoker_jobs_watched_seconds", "Time of their pods in which it was known whether they wait.")
JOBS_STALLED = Counter("stoker_jobs_stalled_seconds", "Of that, time in which they waited for data.")
JOBS_SAVED = Counter("stoker_jobs_saved_gpu_hours", "GPU-hours that they saved against a cold start.")


def note_goodput(known: Goodput) -> None:
    """Count a TrainingJob whose goodput is known; what was not measured adds nothing."""
    JOBS_REPORTED.inc()
    JOBS_HELD.inc(known.held_seconds or 0.0)
    JOBS_WATCHED.inc(known.watched_seconds or 0.0)
    JOBS_STALLED.inc(known.stalled_seconds or 0.0)
    JOBS_SAVED.inc(known.saved_gpu_hours or 0.0)


ORIGIN_NODES = Gauge("stoker_origin_fetching_nodes", "Nodes that fetch from an origin of the chart.", ["origin"])
ORIGIN_BYTES = Gauge("stoker_origin_shared_bytes_per_second", "What they may ask it for together.", ["origin"])
ORIGIN_REQUESTS = Gauge("stoker_origin_shared_requests_per_second", "Requests of that, a second.", ["origin"])
ORIGINS_SLOWED = Gauge("stoker_origins_slowed", "Buckets that are asked for less since they answered SlowDown.")
ORIGIN_SLOWDOWNS = Gauge("stoker_origin_cluster_slowdowns", "Times that all nodes were told to ask a bucket for less.")


def show_origins(figures: Iterable[tuple[str, int, int, int]], slowed: int, slowdowns: int) -> None:
    """Set the figures of the chart's origins: name, nodes, bytes and thousandths of requests a second."""
    for name, nodes, size, requests in figures:
        ORIGIN_NODES.labels(name).set(nodes)
        ORIGIN_BYTES.labels(name).set(size)
        ORIGIN_REQUESTS.labels(name).set(requests / 1000)
    ORIGINS_SLOWED.set(slowed)
    ORIGIN_SLOWDOWNS.set(slowdowns)


def note_turn(taken: float, computed: float) -> None:
    """Count a turn of the event loop that took long, and how much of that it computed; seconds."""
    LOOP_BLOCKED.labels("wall").observe(taken)
    LOOP_BLOCKED.labels("cpu").observe(computed)


def show_workloads(totals: WorkloadTotals) -> None:
    """Set the figures of all nodes' workloads."""
    for phase, count in totals.by_phase.items():
        WORKLOADS.labels(phase).set(count)
    ACTIVE.set(totals.active)
    TUNED.set(totals.tuned)
    EPOCHS.set(totals.epochs)
    BATCHES.set(totals.batches)
