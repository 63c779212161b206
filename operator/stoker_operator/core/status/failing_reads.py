"""Failing reads as nodes report them: for the Dataset's condition, and for events on the pods. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from stoker_api.meta import shortened
from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import FailingReads
from stoker_api.node_caches.node_storage import MountPhase
from stoker_api.times import format_time, parse_time
from stoker_operator.core.plans.plan import DatasetPlan
from stoker_operator.core.views.cluster import ClusterView, PodView
from stoker_operator.core.views.node_states import NodeState, NodeStates
from stoker_operator.core.views.usage import GrantLookup, dataset_key, is_asked

MOST_PODS = 100  # pods of one Dataset that get an event
_MOST_PATH, _MOST_MESSAGE = 200, 500  # characters of a node's texts
_REASONS = frozenset(map(str, Reason))


@dataclass(frozen=True, slots=True)
class FailingPod:
    """A pod whose reads of a Dataset fail. ``dataset``: its key."""

    pod: PodView
    dataset: str
    node: str
    reads: FailingReads

    @property
    def sentence(self) -> str:
        """The message of the pod's event."""
        return self.reads.sentence(f"its reads of {self.dataset} on {self.node}")


def failing_reads(state: NodeState) -> FailingReads | None:
    """Return a node's report with bounded texts; None if reads work, or the Dataset is not assigned to the node."""
    row = state.reported
    if row is None or row.failing_reads is None or not state.assigned:
        return None
    said, since = row.failing_reads, parse_time(row.failing_reads.since)
    return FailingReads(
        reason=said.reason if said.reason in _REASONS else str(Reason.INTERNAL_ERROR),
        path=shortened(said.path, _MOST_PATH),
        message=shortened(said.message, _MOST_MESSAGE),
        temporary=said.temporary,
        since=format_time(since) if since else None,
        version=said.version,
    )


def failing_pods(view: ClusterView, plan: DatasetPlan, states: NodeStates) -> Iterator[FailingPod]:
    """Yield the pods whose reads of a Dataset fail, if the operator's own view has them on the reporting node."""
    return islice(_failing_pods(view, plan, states), MOST_PODS)


def _failing_pods(view: ClusterView, plan: DatasetPlan, states: NodeStates) -> Iterator[FailingPod]:
    uid, key, access = plan.dataset.metadata.uid, plan.dataset.key, GrantLookup(view)
    for node in sorted(states.errors(uid)):
        reads, cache = failing_reads(states.get(uid, node)), view.node_caches.get(node)
        if reads is None or cache is None:
            continue
        for row in cache.status.mounts:
            pod = view.pods.get(f"{row.pod_namespace}/{row.pod}")
            same = dataset_key(row) == key and row.version == reads.version and row.phase is MountPhase.MOUNTED
            if same and pod is not None and is_asked(view, row, pod, node) and access.granted(key, pod.namespace):
                yield FailingPod(pod, key, node, reads)
