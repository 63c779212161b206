"""Match nodes to a Dataset: by labels and taints, with the scheduler's semantics, and by `warm.nodes`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from stoker_api import names
from stoker_api.datasets.dataset import Cache, Dataset
from stoker_api.datasets.node_selection import NodeSelectorRequirement, Toleration
from stoker_operator.core.views.cluster import ClusterView, NodeView, Taint

_NO_SCHEDULE, _NO_EXECUTE = "NoSchedule", "NoExecute"
HARD_EFFECTS = frozenset({_NO_SCHEDULE, _NO_EXECUTE})
_ALL_EFFECTS = HARD_EFFECTS | {"PreferNoSchedule"}
# Taints of Kubernetes and Stoker that describe a temporary state of a node, not its purpose.
_PASSING_PREFIXES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_PASSING = frozenset({names.TAINT_AGENT_NOT_READY, names.TAINT_LEAVING})


class NodeRule(NamedTuple):
    """The node rules of a Dataset's spec, except names and room. Equal rules select the same nodes."""

    selector: tuple[tuple[str, str], ...]
    expressions: tuple[NodeSelectorRequirement, ...]
    tolerations: tuple[Toleration, ...] | None  # None: taints only affect the rank

    @classmethod
    def of(cls, cache: Cache) -> "NodeRule":
        """Read the rule from a spec."""
        return cls(tuple(sorted(cache.node_selector.items())), cache.match_expressions, cache.tolerations)

    def selects(self, node: NodeView) -> bool:
        """Return True if a node may have the Dataset: its labels match, and it has no untolerated NoExecute taint."""
        return self.matches(node) and not self._refusing(node, frozenset({_NO_EXECUTE}))

    def takes(self, node: NodeView) -> bool:
        """Return True if a node without the Dataset may get it."""
        return self.matches(node) and not self._refusing(node, HARD_EFFECTS)

    def matches(self, node: NodeView) -> bool:
        """Return True if a node's labels match."""
        labels = node.labels
        return all(labels.get(key) == value for key, value in self.selector) and all(
            label_matches(labels.get(one.key), one.operator, one.values) for one in self.expressions
        )

    def refusing_taint(self, node: NodeView) -> str:
        """Return the key of a taint that keeps the Dataset off a node, or ""."""
        return self._refusing(node, HARD_EFFECTS)

    def tolerates(self, taint: Taint) -> bool:
        """Return True if the tolerations cover a taint."""
        return any(_is_for(taint, one.key, one.operator, one.value, one.effect) for one in self.tolerations or ())

    def comes_late(self, node: NodeView) -> bool:
        """Return True if a node has a taint that ranks it behind other nodes."""
        # With explicit tolerations, soft taints count too.
        effects = HARD_EFFECTS if self.tolerations is None else _ALL_EFFECTS
        return any(taint.effect in effects and not self.tolerates(taint) for taint in node.taints)

    def _refusing(self, node: NodeView, effects: frozenset[str]) -> str:
        # Ignore taints of a draining node: they must not make it drop data that it still serves.
        if self.tolerations is None or node.leaving:
            return ""
        lasting = (taint for taint in node.taints if taint.effect in effects and not is_passing(taint))
        return next((taint.key for taint in lasting if not self.tolerates(taint)), "")


def is_passing(taint: Taint) -> bool:
    """Return True if a taint describes a temporary state: not ready, cordoned, under pressure, draining."""
    return taint.key.startswith(_PASSING_PREFIXES) or taint.key in _PASSING


def label_matches(value: str | None, operator: str, values: Sequence[str]) -> bool:
    """Compare a label, None if missing, as in corev1.NodeSelectorRequirement."""
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compare(value, values, operator)
        case _:
            return False


def tolerates(toleration: Mapping[str, str | None], taint: Taint) -> bool:
    """Return True if a toleration from a pod's spec covers a taint."""
    key, value = toleration.get("key"), toleration.get("value")
    return _is_for(taint, key, toleration.get("operator", "Equal"), value, toleration.get("effect"))


def _is_for(taint: Taint, key: str | None, operator: str | None, value: str | None, effect: str | None) -> bool:
    if effect not in (None, "", taint.effect):
        return False
    if operator == "Exists":
        return key in (None, "", taint.key)
    return key == taint.key and (value or "") == taint.value


def _integer(text: str) -> int:
    """Parse an integer as the scheduler does. Raises ValueError. Python also accepts 1_000, which a label may be."""
    if "_" in text:
        raise ValueError(text)
    return int(text)


def _compare(value: str | None, values: Sequence[str], operator: str) -> bool:
    try:
        left, right = _integer(value or ""), _integer(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right


_NAMED = 3


def may_warm(dataset: Dataset, node: NodeView) -> bool:
    """Return True if a Dataset may be warmed on a node: its rules match, and warm.nodes is empty or names the node."""
    named = dataset.spec.warm.nodes
    return (not named or node.name in named) and NodeRule.of(dataset.spec.cache).takes(node)


def selecting(dataset: Dataset) -> str:
    """Return the fields of a Dataset's spec that select nodes, as words for a message: ``match cache.nodeSelector``."""
    cache = dataset.spec.cache
    rules = ["match cache.nodeSelector"]
    rules += ["cache.matchExpressions"] if cache.match_expressions else []
    rules += ["cache.tolerations"] if cache.tolerations is not None else []
    return " and ".join(rules)


def missing_nodes(view: ClusterView, dataset: Dataset) -> list[str]:
    """Return a message for each named node that cannot hold the Dataset."""
    return [f"{name} {why}" for name in dataset.spec.warm.nodes if (why := _why_not(view, dataset, name))]


def _why_not(view: ClusterView, dataset: Dataset, name: str) -> str:
    node = view.nodes.get(name)
    if node is None:
        return "is not a node of this cluster"
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
    """Return the message about these names, with the fix."""
    every = list(missing)
    more = f"; and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return f"warm.nodes: {'; '.join(every[:_NAMED])}{more}: the other nodes are warmed; correct the names"
