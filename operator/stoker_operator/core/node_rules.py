"""Which nodes a Dataset may be on by their labels and taints, with the meaning that the scheduler gives the words."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stoker_api import names
from stoker_api.dataset import Cache
from stoker_api.node_selection import NodeSelectorRequirement, Toleration
from stoker_operator.core.views import NodeView, Taint

_NO_SCHEDULE, _NO_EXECUTE = "NoSchedule", "NoExecute"
HARD_EFFECTS = frozenset({_NO_SCHEDULE, _NO_EXECUTE})
_ALL_EFFECTS = HARD_EFFECTS | {"PreferNoSchedule"}
# Kubernetes' and our own taints that say how a node is at the moment, and nothing of what it is for.
_PASSING_PREFIXES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_PASSING = frozenset({names.TAINT_AGENT_NOT_READY, names.TAINT_LEAVING})


class NodeRule(NamedTuple):
    """The nodes that a Dataset's spec means, but for names and room; equal ones mean the same nodes."""

    selector: tuple[tuple[str, str], ...]
    expressions: tuple[NodeSelectorRequirement, ...]
    tolerations: tuple[Toleration, ...] | None  # None: taints are only ranked

    @classmethod
    def of(cls, cache: Cache) -> "NodeRule":
        """Read it out of a spec."""
        return cls(tuple(sorted(cache.node_selector.items())), cache.match_expressions, cache.tolerations)

    def selects(self, node: NodeView) -> bool:
        """Tell whether a node may have it: by its labels, and no taint that is not tolerated drives it out."""
        return self.matches(node) and not self._refusing(node, frozenset({_NO_EXECUTE}))

    def takes(self, node: NodeView) -> bool:
        """Tell whether a node may be given it where it has nothing of it yet."""
        return self.matches(node) and not self._refusing(node, HARD_EFFECTS)

    def matches(self, node: NodeView) -> bool:
        """Tell whether a node's labels are as they must be."""
        labels = node.labels
        return all(labels.get(key) == value for key, value in self.selector) and all(
            label_matches(labels.get(one.key), one.operator, one.values) for one in self.expressions
        )

    def refusing_taint(self, node: NodeView) -> str:
        """Return the key of a taint that keeps it off a node; empty where there is none."""
        return self._refusing(node, HARD_EFFECTS)

    def tolerates(self, taint: Taint) -> bool:
        """Tell whether a taint does not matter."""
        return any(_is_for(taint, one.key, one.operator, one.value, one.effect) for one in self.tolerations or ())

    def comes_late(self, node: NodeView) -> bool:
        """Tell whether a node has a taint for which others are chosen before it."""
        # Whoever names tolerations means the soft taints, too.
        effects = HARD_EFFECTS if self.tolerations is None else _ALL_EFFECTS
        return any(taint.effect in effects and not self.tolerates(taint) for taint in node.taints)

    def _refusing(self, node: NodeView, effects: frozenset[str]) -> str:
        # Of a node that is about to go anyway: what says so must not have it drop what it still gives to others.
        if self.tolerations is None or node.leaving:
            return ""
        lasting = (taint for taint in node.taints if taint.effect in effects and not is_passing(taint))
        return next((taint.key for taint in lasting if not self.tolerates(taint)), "")


def is_passing(taint: Taint) -> bool:
    """Tell whether a taint says how a node is at the moment: not ready, cordoned, under pressure, about to go."""
    return taint.key.startswith(_PASSING_PREFIXES) or taint.key in _PASSING


def label_matches(value: str | None, operator: str, values: Sequence[str]) -> bool:
    """Compare a label, None where the node has none of that key, as corev1.NodeSelectorRequirement says."""
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
    """Tell whether a toleration as it stands in a pod's spec is for a taint."""
    key, value = toleration.get("key"), toleration.get("value")
    return _is_for(taint, key, toleration.get("operator", "Equal"), value, toleration.get("effect"))


def _is_for(taint: Taint, key: str | None, operator: str | None, value: str | None, effect: str | None) -> bool:
    if effect not in (None, "", taint.effect):
        return False
    if operator == "Exists":
        return key in (None, "", taint.key)
    return key == taint.key and (value or "") == taint.value


def _integer(text: str) -> int:
    """Read an integer as the scheduler does. Raises ValueError: Python reads 1_000 too, which a label may be."""
    if "_" in text:
        raise ValueError(text)
    return int(text)


def _compare(value: str | None, values: Sequence[str], operator: str) -> bool:
    try:
        left, right = _integer(value or ""), _integer(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right
