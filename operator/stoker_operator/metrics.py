"""The operator's Prometheus metrics; labels are bounded by code, never by users' objects."""

from prometheus_client import Counter, Gauge, Histogram

LEADER = Gauge("stoker_leader", "1 on the replica that acts, 0 on the one that stands by.")
RECONCILE_SECONDS = Histogram("stoker_reconcile_seconds", "Duration of one pass of a reconcile loop.", ["loop"])
RECONCILE_ERRORS = Counter("stoker_reconcile_errors", "Passes that failed and were tried again.", ["loop"])
UNREADABLE = Counter("stoker_unreadable_objects", "Objects that could not be read, which stay as they were.", ["kind"])
FAILING = Gauge("stoker_failing_actions", "Actions on single objects that failed the last time.", ["loop"])
WRITES = Counter("stoker_writes", "Objects written to the API server.", ["kind", "verb"])
DATASETS = Gauge("stoker_datasets", "Datasets by phase.", ["phase"])
UNSCHEDULABLE = Gauge(
    "stoker_unschedulable_pods", "Released pods that the scheduler has found no node for, for a minute."
)
OBJECTS = Gauge("stoker_mirrored_objects", "Objects held in memory, by table.", ["table"])
