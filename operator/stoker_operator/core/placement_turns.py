"""What comes before Datasets take their turns: whose turn is when, and what is taken already."""

from stoker_api.dataset import Dataset
from stoker_api.times import parse_time
from stoker_operator.core.node_states import NodeStates
from stoker_operator.core.quota import QuotaBook, Tenant
from stoker_operator.core.usage import Use
from stoker_operator.core.views import ClusterView

Turn = tuple[bool, int, float, str]


def charge_refused(view: ClusterView, states: NodeStates, book: QuotaBook) -> None:
    """Count what nodes have of Datasets that are not taken, to the class that they had last."""
    for one in view.invalid_datasets.values():
        tenant = Tenant(one.status.class_name, one.metadata.namespace)
        for node, state in states.of_dataset(one.metadata.uid).items():
            book.charge(tenant, one.metadata.name, node, state.warm_bytes)


def pod_nodes(view: ClusterView, uses: tuple[Use, ...], wanted: frozenset[str]) -> frozenset[str]:
    """Return nodes with a cache where pods use the dataset or wait for it."""
    found = {use.node for use in uses if use.node} | wanted
    return frozenset(name for name in found if name in view.nodes and name in view.node_caches)


def turn_of(dataset: Dataset, used: bool) -> Turn:
    """Return what puts Datasets in line: used ones first, then by priority and age."""
    return (not used, -dataset.spec.warm.priority, parse_time(dataset.metadata.creation_timestamp), dataset.key)
