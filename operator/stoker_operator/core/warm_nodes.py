"""Which nodes a Dataset is warmed on by their names (`warm.nodes`), and which of those names mean nothing."""

from collections.abc import Iterable

from stoker_api.dataset import Dataset
from stoker_operator.core.node_rules import NodeRule
from stoker_operator.core.views import ClusterView, NodeView

_NAMED = 3


def may_warm(dataset: Dataset, node: NodeView) -> bool:
    """Tell whether a Dataset may be warmed on a node: one of its rules, and of those that it names, if any."""
    named = dataset.spec.warm.nodes
    return (not named or node.name in named) and NodeRule.of(dataset.spec.cache).takes(node)


def selecting(dataset: Dataset) -> str:
    """Name what of a Dataset's spec selects nodes, as words for a sentence: ``match cache.nodeSelector``."""
    cache = dataset.spec.cache
    rules = ["match cache.nodeSelector"]
    rules += ["cache.matchExpressions"] if cache.match_expressions else []
    rules += ["cache.tolerations"] if cache.tolerations is not None else []
    return " and ".join(rules)


def missing_nodes(view: ClusterView, dataset: Dataset) -> list[str]:
    """Return a sentence for each node that is named and cannot be warmed on."""
    return [f"{name} {why}" for name in dataset.spec.warm.nodes if (why := _why_not(view, dataset, name))]


def _why_not(view: ClusterView, dataset: Dataset, name: str) -> str:
    node = view.nodes.get(name)
    if node is None:
        return "is no node of this cluster"
    cache = dataset.spec.cache
    if not node.matches(cache.node_selector):
        return "does not match cache.nodeSelector"
    if not NodeRule.of(cache).matches(node):
        return "does not match cache.matchExpressions"
    if taint := NodeRule.of(cache).refusing_taint(node):
        return f"has the taint {taint}, which cache.tolerations does not name"
    if name not in view.node_caches:
        return "has no running sidecar"
    return ""


def missing_sentence(missing: Iterable[str]) -> str:
    """Write what is wrong with the names, and what to do."""
    every = list(missing)
    more = f"; and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return f"warm.nodes: {'; '.join(every[:_NAMED])}{more}: the others are warmed; correct the names"
