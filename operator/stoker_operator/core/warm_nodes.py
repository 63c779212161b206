"""Which nodes a Dataset is warmed on by their names (`warm.nodes`), and which of those names mean nothing."""

from collections.abc import Iterable

from stoker_api.dataset import Dataset
from stoker_operator.core.views import ClusterView, NodeView

_NAMED = 3


def may_warm(dataset: Dataset, node: NodeView) -> bool:
    """Tell whether a Dataset may be warmed on a node: one of its selector, and of those that it names, if any."""
    named = dataset.spec.warm.nodes
    return node.matches(dataset.spec.cache.node_selector) and (not named or node.name in named)


def missing_nodes(view: ClusterView, dataset: Dataset) -> list[str]:
    """Return a sentence for each node that is named and cannot be warmed on."""
    return [f"{name} {why}" for name in dataset.spec.warm.nodes if (why := _why_not(view, dataset, name))]


def _why_not(view: ClusterView, dataset: Dataset, name: str) -> str:
    node = view.nodes.get(name)
    if node is None:
        return "is no node of this cluster"
    if not node.matches(dataset.spec.cache.node_selector):
        return "does not match cache.nodeSelector"
    if name not in view.node_caches:
        return "has no running sidecar"
    return ""


def missing_sentence(missing: Iterable[str]) -> str:
    """Write what is wrong with the names, and what to do."""
    every = list(missing)
    more = f"; and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return f"warm.nodes: {'; '.join(every[:_NAMED])}{more}: the others are warmed; correct the names"
