"""Which nodes a pod may run on, as the scheduler sees it, and how its node affinity is tightened to warm ones."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from stoker_operator.core.node_rules import HARD_EFFECTS, label_matches, tolerates
from stoker_operator.core.views import NodeView, PodView

Raw = Mapping[str, Any]

HOSTNAME_LABEL = "kubernetes.io/hostname"
_NODE_AFFINITY = "nodeAffinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HIGHEST_WEIGHT = 100  # of a preferred term, set by the API


def may_run(pod: PodView, node: NodeView) -> bool:
    """Tell whether selectors, required node affinity and taints let ``pod`` on ``node``.

    Capacity is another question.
    """
    if not node.matches(pod.node_selector):
        return False
    terms = required_terms(pod.affinity)
    if terms is not None and not any(_term_matches(term, node) for term in terms):
        return False
    blocking = (taint for taint in node.taints if taint.effect in HARD_EFFECTS)
    return all(any(tolerates(one, taint) for one in pod.tolerations) for taint in blocking)


def required_terms(affinity: Raw) -> Sequence[Raw] | None:
    """Return the pod's own required node selector terms (ORed); None when it has none."""
    required = (affinity.get(_NODE_AFFINITY) or {}).get(_REQUIRED)
    return None if required is None else required.get("nodeSelectorTerms") or ()


def require_nodes(affinity: Raw, nodes: Iterable[NodeView]) -> dict[str, Any]:
    """Tighten ``affinity`` to ``nodes``, in the one way that the API server allows for a gated pod.

    Without required terms of its own: one term a node, by the node's name, which the scheduler looks up at once. With
    own terms none may be added or dropped: each gets the hostnames as a further requirement.
    """
    own = required_terms(affinity)
    if own is None:
        terms: list[Raw] = [_only(node.name) for node in nodes]
    else:
        hostnames = [node.labels.get(HOSTNAME_LABEL, node.name) for node in nodes]
        further = {"key": HOSTNAME_LABEL, "operator": "In", "values": hostnames}
        terms = [_add(term, further) for term in own]
    return _with(affinity, _REQUIRED, {"nodeSelectorTerms": terms})


def prefer_nodes(affinity: Raw, shares: Iterable[tuple[NodeView, float]]) -> dict[str, Any]:
    """Give ``affinity`` a preferred term for each node, weighted by its share (0 to 1); the pod's own terms stay."""
    own = (affinity.get(_NODE_AFFINITY) or {}).get(_PREFERRED) or ()
    terms = [
        {"weight": max(1, round(_HIGHEST_WEIGHT * share)), "preference": _only(node.name)} for node, share in shares
    ]
    return _with(affinity, _PREFERRED, [*own, *terms])


def _with(affinity: Raw, field: str, value: Any) -> dict[str, Any]:
    return {**affinity, _NODE_AFFINITY: {**(affinity.get(_NODE_AFFINITY) or {}), field: value}}


def _add(term: Raw, requirement: Raw) -> dict[str, Any]:
    expressions = term.get("matchExpressions") or ()
    if not expressions and not term.get("matchFields"):
        return dict(term)  # matches no node: with a requirement it would match some, and that is looser
    return {**term, "matchExpressions": [*expressions, requirement]}


@lru_cache(maxsize=10_000)  # a thousand pods of one Job name the same nodes: one object each, not fifty thousand
def _only(name: str) -> Raw:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}


def _term_matches(term: Raw, node: NodeView) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False  # an empty term matches no node, by the API's own rule
    return all(_expression_matches(one, node.labels) for one in expressions) and all(
        _expression_matches(one, {"metadata.name": node.name}) for one in fields
    )


def _expression_matches(expression: Raw, labels: Mapping[str, str]) -> bool:
    return label_matches(labels.get(expression["key"]), expression["operator"], expression.get("values") or ())
