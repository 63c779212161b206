"""The operator's Prometheus metrics; labels are bounded by code, never by users' objects."""

import collections
from collections.abc import Iterable
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from stoker_api.goodput import Goodput
from stoker_api.names import Reason
from stoker_api.node_caches.workload_totals import WorkloadTotals

LEADER = Gauge("stoker_leader", "1 on the replica that leads, 0 on a standby replica.")
RECONCILE_SECONDS = Histogram("stoker_reconcile_seconds", "Duration of a reconcile pass.", ["loop"])
RECONCILE_ERRORS = Counter("stoker_reconcile_errors", "Reconcile passes and actions that failed.", ["loop"])
UNREADABLE = Counter("stoker_unreadable_objects", "Objects from the API server that could not be parsed.", ["kind"])
FAILING = Gauge("stoker_failing_actions", "Actions on single objects whose last attempt failed.", ["loop"])
WRITES = Counter("stoker_writes", "Writes to the API server.", ["kind", "verb"])
DATASETS = Gauge("stoker_datasets", "Datasets by phase.", ["phase"])
LATE = Gauge("stoker_late_datasets", "Datasets that miss warm.deadline, or are expected to, by reason.", ["reason"])

# Seconds: most pods are held for as long as a warm-up takes, from seconds to hours.
_WAIT_BUCKETS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800, 86400)
HELD = Gauge("stoker_held_pods", "Pods held at the scheduling gate, by reason.", ["reason"])
HOLD_SECONDS = Histogram(
    "stoker_pod_hold_seconds",
    "Time that released pods were held at the scheduling gate, by the reason of the release.",
    ["reason"],
    buckets=_WAIT_BUCKETS,
)
WARM_SECONDS = Histogram(
    "stoker_dataset_warm_up_seconds",
    "Time from the start of a Dataset's listing or warm-up until the Dataset was warm.",
    buckets=_WAIT_BUCKETS,
)
UNSCHEDULABLE = Gauge("stoker_unschedulable_pods", "Released pods that have been unschedulable for a minute.")
WORKLOADS = Gauge("stoker_cluster_workloads", "Pods whose training phase is known, by phase.", ["phase"])
ACTIVE = Gauge("stoker_cluster_active_workloads", "Pods of known phase that read data recently.")
TUNED = Gauge("stoker_cluster_tuned_workloads", "Pods of known phase with a tuning change that had an effect.")
EPOCHS = Gauge("stoker_cluster_epochs", "Finished epochs of the current pods.")
BATCHES = Gauge("stoker_cluster_batches", "Finished batches of the current pods.")
OBJECTS = Gauge("stoker_mirrored_objects", "Objects held in memory, by table.", ["table"])

ORDERS_WRONG = Counter("stoker_wrong_orders", "TrainingJobs found to read in another order than spec.sampling.")
JOBS_REPORTED = Counter("stoker_jobs_reported", "Finished TrainingJobs with known goodput.")
JOBS_HELD = Counter("stoker_jobs_held_seconds", "Sum of the longest hold at the gate of each finished TrainingJob.")
JOBS_WATCHED = Counter("stoker_jobs_watched_seconds", "Pod time of finished TrainingJobs with a known stall.")
JOBS_STALLED = Counter("stoker_jobs_stalled_seconds", "Pod time of finished TrainingJobs spent waiting for data.")
JOBS_SAVED = Counter(
    "stoker_jobs_saved_gpu_seconds", "GPU time that finished TrainingJobs saved, compared with a cold start."
)


def note_goodput(known: Goodput) -> None:
    """Count a finished TrainingJob; figures that were not measured add nothing."""
    JOBS_REPORTED.inc()
    JOBS_HELD.inc(known.held_seconds or 0.0)
    JOBS_WATCHED.inc(known.watched_seconds or 0.0)
    JOBS_STALLED.inc(known.stalled_seconds or 0.0)
    JOBS_SAVED.inc((known.saved_gpu_hours or 0.0) * 3600)


ORIGIN_NODES = Gauge("stoker_origin_fetching_nodes", "Nodes that fetch from an origin of the chart.", ["origin"])
ORIGIN_BYTES = Gauge(
    "stoker_origin_shared_bytes_per_second", "Limit of all nodes together on bytes from an origin.", ["origin"]
)
ORIGIN_REQUESTS = Gauge(
    "stoker_origin_shared_requests_per_second", "Limit of all nodes together on requests to an origin.", ["origin"]
)
ORIGINS_SLOWED = Gauge("stoker_origins_slowed", "Buckets with a lowered request rate after SlowDown answers.")
ORIGIN_SLOWDOWNS = Counter(
    "stoker_origin_cluster_slowdowns", "Times that the request rate of a bucket was lowered on all nodes."
)


def show_origins(figures: Iterable[tuple[str, int, int, int]], slowed: int, slowdowns: int) -> None:
    """Set the figures of the chart's origins: name, nodes, bytes and thousandths of requests a second.

    ``slowdowns``: those since the last call.
    """
    for name, nodes, size, requests in figures:
        ORIGIN_NODES.labels(name).set(nodes)
        ORIGIN_BYTES.labels(name).set(size)
        ORIGIN_REQUESTS.labels(name).set(requests / 1000)
    ORIGINS_SLOWED.set(slowed)
    ORIGIN_SLOWDOWNS.inc(slowdowns)


def show_workloads(totals: WorkloadTotals) -> None:
    """Set the figures of all nodes' workloads."""
    for phase, count in totals.by_phase.items():
        WORKLOADS.labels(phase).set(count)
    ACTIVE.set(totals.active)
    TUNED.set(totals.tuned)
    EPOCHS.set(totals.epochs)
    BATCHES.set(totals.batches)


class HeldPods:
    """Held pods by reason. The reasons are a closed set, so tenants cannot add series."""

    def __init__(self) -> None:
        self._reasons: Final[dict[str, Reason]] = {}
        self._counts: Final[collections.Counter[Reason]] = collections.Counter()

    def hold(self, key: str, reason: Reason) -> None:
        """Count a pod, or move it to another reason."""
        self._set(key, reason)

    def drop(self, key: str) -> None:
        """Forget a pod that is not held."""
        self._set(key, None)

    def _set(self, key: str, reason: Reason | None) -> None:
        before = self._reasons.pop(key, None)
        if before is not None:
            self._counts[before] -= 1
        if reason is not None:
            self._reasons[key] = reason
            self._counts[reason] += 1
        for each in (before, reason):
            if each is not None:
                HELD.labels(each.value).set(self._counts[each])
