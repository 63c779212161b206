"""Sets of nodes on which pods with equal constraints may run, and keys for equal constraints, room and data."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stoker_api.datasets.dataset import Cache, Dataset
from stoker_operator.core.fitting.affinity import may_run
from stoker_operator.core.fitting.node_bits import NodeSets, SetChanges
from stoker_operator.core.fitting.pod_demand import PodDemand
from stoker_operator.core.views.cluster import LIFECYCLE_TAINTS, NodeView, PodView
from stoker_operator.core.views.node_states import SILENCE
from stoker_operator.core.views.resources import Resources


def silent_until(node: NodeView) -> float | None:
    """Return when a silent node is given up, in seconds since the epoch. None: it is not silent.

    A node that is ready again stays silent until Kubernetes removes its taints, because no pod can go there before.
    """
    if not node.ready:
        return node.not_ready_since + SILENCE
    if not node.sidecar_ready:
        return node.sidecar_silent_since + SILENCE
    tainted = any(taint.key in LIFECYCLE_TAINTS for taint in node.taints)
    return node.ready_since + SILENCE if tainted else None


class FeasibleNodes(NodeSets):
    """Nodes that the selectors, affinity and tolerations of identical pods allow.

    ``feasible``: ready and schedulable nodes with a ready sidecar that are not draining. ``silent``: recently silent
    nodes.
    """

    SETS = ("feasible", "silent")
    feasible: int
    silent: int

    def __init__(self, changes: SetChanges, pod: PodView) -> None:
        super().__init__(changes)
        self._pod: Final = pod
        self._errors: Final[dict[str, Exception]] = {}

    @property
    def error(self) -> Exception | None:
        """The error from a comparison of a node with the constraints, if they are invalid."""
        return next(iter(self._errors.values()), None)

    def put(self, at: int, node: NodeView, now: float) -> None:
        """Update a node. ``now``: seconds since the epoch."""
        self.forget(node.name)
        try:
            feasible, silent = self._feasible(node), self._silent(node, now)
        except Exception as error:  # noqa: BLE001 -- the boundary of a pod's constraints
            self._errors[node.name] = error
            feasible = silent = False
        self.mark("feasible", at, feasible)
        self.mark("silent", at, silent)

    def forget(self, name: str) -> None:
        """Remove the error of a node."""
        self._errors.pop(name, None)

    def _feasible(self, node: NodeView) -> bool:
        return node.takes_new and node.ready and node.sidecar_ready and may_run(self._pod, node)

    def _silent(self, node: NodeView, now: float) -> bool:
        until = silent_until(node)
        if until is None or now >= until or not node.takes_new:
            return False
        # Taints that only mean silence are no reason not to wait for the node.
        taints = tuple(taint for taint in node.taints if taint.key not in LIFECYCLE_TAINTS)
        return may_run(self._pod, replace(node, taints=taints))


def constraints_key(pod: PodView) -> str:
    """Return the key of a pod's node constraints. Raises TypeError if they are not JSON."""
    return json.dumps([dict(pod.node_selector), pod.affinity, pod.tolerations], sort_keys=True)


def room_key(requests: Resources) -> str:
    """Return the key of a pod's requests."""
    extended = sorted((name, count) for name, count in requests.extended.items() if count)
    return json.dumps([requests.cpu_milli, requests.memory, requests.pods, extended])


def data_key(demand: PodDemand) -> str:
    """Return the key of all inputs of node warmth, except node reports."""
    return json.dumps([_data(dataset, demand.versions.get(dataset.key, "")) for dataset in demand.datasets])


def allowed_key(datasets: Sequence[Dataset]) -> str:
    """Return the key of the rules for nodes on which Datasets may be warmed."""
    rules = [(*_rule(one.spec.cache), one.spec.warm.nodes) for one in datasets]
    # Most Datasets have no rules and share one key.
    said = [rule for rule in rules if any(rule)]
    return json.dumps(said, sort_keys=True)


def _rule(cache: Cache) -> tuple[object, ...]:
    tolerations = None if cache.tolerations is None else [one.wire() for one in cache.tolerations]
    # An empty list of tolerations is a rule. A missing list is not.
    said = {} if tolerations is None else {"tolerations": tolerations}
    return dict(cache.node_selector), [one.wire() for one in cache.match_expressions], said


def _data(dataset: Dataset, older: str) -> list[object]:
    status, uid = dataset.status, dataset.metadata.uid
    return [dataset.key, uid, older, status.version, status.bytes or 0, dataset.spec.warm.told_paths]
