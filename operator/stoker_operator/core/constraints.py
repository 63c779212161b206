"""Keys of what is alike: pods with equal ones may run on the same nodes, fit into the same room, or want the same."""

import json
from collections.abc import Sequence

from stoker_api.dataset import Cache, Dataset
from stoker_operator.core.pod_demand import PodDemand
from stoker_operator.core.resources import Resources
from stoker_operator.core.views import PodView


def constraints_key(pod: PodView) -> str:
    """Return the key of what decides which nodes a pod may run on. Raises TypeError where that is not JSON."""
    return json.dumps([dict(pod.node_selector), pod.affinity, pod.tolerations], sort_keys=True)


def room_key(requests: Resources) -> str:
    """Return the key of what a pod asks of a node."""
    extended = sorted((name, count) for name, count in requests.extended.items() if count)
    return json.dumps([requests.cpu_milli, requests.memory, requests.pods, extended])


def data_key(demand: PodDemand) -> str:
    """Return the key of all that the warmth of nodes depends on, but for what they report."""
    return json.dumps([_data(dataset, demand.versions.get(dataset.key, "")) for dataset in demand.datasets])


def allowed_key(datasets: Sequence[Dataset]) -> str:
    """Return the key of what decides which nodes Datasets may be warmed on."""
    rules = [(*_rule(one.spec.cache), one.spec.warm.nodes) for one in datasets]
    # Most Datasets have no such rule, and share one key.
    said = [rule for rule in rules if any(rule)]
    return json.dumps(said, sort_keys=True)


def _rule(cache: Cache) -> tuple[object, ...]:
    tolerations = None if cache.tolerations is None else [one.wire() for one in cache.tolerations]
    # An empty list of tolerations is a rule, none is not.
    said = {} if tolerations is None else {"tolerations": tolerations}
    return dict(cache.node_selector), [one.wire() for one in cache.match_expressions], said


def _data(dataset: Dataset, older: str) -> list[object]:
    status, uid = dataset.status, dataset.metadata.uid
    return [dataset.key, uid, older, status.version, status.bytes or 0, dataset.spec.warm.told_paths]
