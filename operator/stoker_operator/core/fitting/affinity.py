"""The nodes on which a pod may run, by the scheduler's rules, and node affinity for warm nodes."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from stoker_operator.core.placement.node_rules import HARD_EFFECTS, label_matches, tolerates
from stoker_operator.core.views.cluster import NodeView, PodView

Raw = Mapping[str, Any]

HOSTNAME_LABEL = "kubernetes.io/hostname"
_NODE_AFFINITY = "nodeAffinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_MOST_HOSTNAMES = 1000  # in all terms of a pod together; each of its own terms gets all hostnames
_HIGHEST_WEIGHT = 100  # of a preferred term, set by the API


def may_run(pod: PodView, node: NodeView) -> bool:
    """Return True if selectors, required node affinity and taints allow ``pod`` on ``node``.

    Capacity is not checked.
    """
    if not node.matches(pod.node_selector):
        return False
    terms = required_terms(pod.affinity)
    if terms is not None and not any(_term_matches(term, node) for term in terms):
        return False
    blocking = (taint for taint in node.taints if taint.effect in HARD_EFFECTS)
    return all(any(tolerates(one, taint) for one in pod.tolerations) for taint in blocking)


def required_terms(affinity: Raw) -> Sequence[Raw] | None:
    """Return the pod's own required node selector terms (ORed), or None."""
    required = (affinity.get(_NODE_AFFINITY) or {}).get(_REQUIRED)
    return None if required is None else required.get("nodeSelectorTerms") or ()


def require_nodes(affinity: Raw, nodes: Iterable[NodeView]) -> dict[str, Any]:
    """Restrict ``affinity`` to ``nodes``, in the one way that the API server allows for a gated pod.

    If the pod has no required terms: add one term for each node, by the node's name, which the scheduler looks up
    directly. Existing terms can be neither added nor removed, so each gets the hostnames as an extra requirement. If
    there are many terms, they get only the first hostnames.
    """
    own = required_terms(affinity)
    if own is None:
        terms: list[Raw] = [_only(node.name) for node in nodes]
    else:
        most = max(1, _MOST_HOSTNAMES // max(1, len(own)))
        hostnames = [node.labels.get(HOSTNAME_LABEL, node.name) for node in islice(nodes, most)]
        further = {"key": HOSTNAME_LABEL, "operator": "In", "values": hostnames}
        terms = [_add(term, further) for term in own]
    return _with(affinity, _REQUIRED, {"nodeSelectorTerms": terms})


def prefer_nodes(affinity: Raw, shares: Iterable[tuple[NodeView, float]]) -> dict[str, Any]:
    """Add to ``affinity`` a preferred term for each node, weighted by its share (0 to 1). The pod's own terms stay."""
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
        return dict(term)  # matches no node; with a requirement it would match some
    return {**term, "matchExpressions": [*expressions, requirement]}


@lru_cache(maxsize=10_000)  # a thousand pods of one Job name the same nodes: share one object for each node
def _only(name: str) -> Raw:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}


def _term_matches(term: Raw, node: NodeView) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False  # an empty term matches no node, by the API's rules
    return all(_expression_matches(one, node.labels) for one in expressions) and all(
        _expression_matches(one, {"metadata.name": node.name}) for one in fields
    )


def _expression_matches(expression: Raw, labels: Mapping[str, str]) -> bool:
    return label_matches(labels.get(expression["key"]), expression["operator"], expression.get("values") or ())
