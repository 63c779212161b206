"""What a Dataset's owner is told while a node that holds it is about to go."""

from stoker_api.names import ConditionType, Reason
from stoker_operator.core.conditions import ConditionSet
from stoker_operator.core.figures import Figures
from stoker_operator.core.node_roles import Role
from stoker_operator.core.node_states import NodeStates
from stoker_operator.core.plan import DatasetPlan, wants_warming
from stoker_operator.core.views import ClusterView

_NAMED = 3  # nodes that a sentence names before it only counts


def set_moving(out: ConditionSet, view: ClusterView, plan: DatasetPlan, states: NodeStates, figures: Figures) -> None:
    """Say whether others have what a node has that is about to go; nothing where none is, or none should hold it."""
    uid, desired = plan.dataset.metadata.uid, plan.placement.desired
    leaving = [node for node in plan.placement.nodes(Role.LEAVING) if states.get(uid, node).warm_bytes]
    if not leaving or not desired or not wants_warming(plan):
        return
    done = min(figures.done, desired)
    going = f"{_are(leaving)} leaving ({_why(view, leaving)})"
    where = f"{done} of {desired} replicas are whole on nodes that stay; {going}"
    if figures.done >= desired:
        out.set(ConditionType.MOVING, False, Reason.HANDED_OVER, f"{where}, and may go")
        return
    coming = [node for node, state in figures.targets.items() if not state.done]
    short = len(figures.targets) < desired
    takes = f"{_named(coming)} take{'s' if len(coming) == 1 else ''} over" if coming else ""
    lack = "no other node can take it over: add one, or wait" if short else ""
    out.set(ConditionType.MOVING, True, Reason.NODE_LEAVING, "; ".join(filter(None, (where, takes, lack))))


def _are(nodes: list[str]) -> str:
    return f"{_named(nodes)} {'is' if len(nodes) == 1 else 'are'}"


def _named(nodes: list[str]) -> str:
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return ", ".join(nodes[:_NAMED]) + more


def _why(view: ClusterView, nodes: list[str]) -> str:
    reasons = dict.fromkeys(view.nodes[node].leaving for node in nodes if node in view.nodes)
    return "; ".join(list(reasons)[:_NAMED])
