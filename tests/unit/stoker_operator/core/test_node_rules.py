"""Nodes allowed for a Dataset by labels and taints."""

from typing import Any

import pytest

from stoker_api.datasets.dataset import Cache
from stoker_operator.core.placement.node_roles import Role
from stoker_operator.core.placement.node_rules import NodeRule
from stoker_operator.core.views.cluster import NodeView, Taint
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import decided, listed, make_dataset, make_holder, make_node

KEY = "vision/imagenet"
LABELS = {"gpu": "a100", "cpus": "64", "parts": "1_000"}


def rule(**cache: Any) -> NodeRule:
    return NodeRule.of(Cache.model_validate(cache))


def expression(key: str, operator: str, *values: str) -> NodeRule:
    return rule(matchExpressions=[{"key": key, "operator": operator, "values": list(values)}])


@pytest.mark.parametrize(
    ("words", "matches"),
    [
        (("gpu", "In", "a100", "h100"), True),
        (("gpu", "In", "h100"), False),
        (("none", "In", "a100"), False),
        (("gpu", "NotIn", "a100"), False),
        (("none", "NotIn", "a100"), True),
        (("gpu", "Exists"), True),
        (("none", "Exists"), False),
        (("gpu", "DoesNotExist"), False),
        (("none", "DoesNotExist"), True),
        (("cpus", "Gt", "63"), True),
        (("cpus", "Gt", "64"), False),
        (("cpus", "Lt", "65"), True),
        (("cpus", "Lt", "64"), False),
        (("gpu", "Gt", "1"), False),
        (("none", "Lt", "1"), False),
        (("parts", "Gt", "1"), False),  # an integer to Python only
    ],
)
def test_an_expression_means_what_it_means_in_a_pod(words: tuple[str, ...], matches: bool) -> None:
    assert expression(words[0], words[1], *words[2:]).matches(make_node("a", labels=LABELS)) is matches


def test_all_expressions_and_the_selector_must_hold() -> None:
    both = rule(nodeSelector={"gpu": "a100"}, matchExpressions=[{"key": "cpus", "operator": "Exists"}])
    assert both.matches(make_node("a", labels=LABELS))
    assert not both.matches(make_node("a", labels={"gpu": "a100"}))
    assert not both.matches(make_node("a", labels={"cpus": "64"}))


def tainted(key: str, effect: str = "NoSchedule", **fields: Any) -> NodeView:
    return make_node("a", taints=(Taint(key, "yes", effect),), **fields)


@cases(
    "tolerations, takes",
    (None, True),
    ([], False),
    ([{"key": "gpu", "operator": "Exists"}], True),
    ([{"key": "gpu", "value": "yes"}], True),
    ([{"key": "gpu", "value": "no"}], False),
    ([{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], False),
    ([{"key": "other", "operator": "Exists"}], False),
    ([{"operator": "Exists"}], True),
)
def test_a_taint_matters_where_tolerations_are_given_and_none_is_for_it(tolerations: Any, takes: bool) -> None:
    spec = {} if tolerations is None else {"tolerations": tolerations}
    assert rule(**spec).takes(tainted("gpu")) is takes


@cases("key", "node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable", "stoker.dev/agent-not-ready")
def test_taints_that_say_how_a_node_is_at_the_moment_do_not_matter(key: str) -> None:
    assert rule(tolerations=[]).takes(tainted(key, "NoExecute"))


def test_a_taint_by_which_a_node_is_about_to_go_does_not_drive_data_out() -> None:
    assert rule(tolerations=[]).selects(tainted("going", "NoExecute", leaving="it has the taint going"))


NONE_TOLERATED: dict[str, Any] = {"tolerations": []}
GPU = {"key": "gpu", "operator": "Exists"}


@cases(
    "cache, first, held, node",
    no_schedule_keeps_what_is_there=(NONE_TOLERATED, tainted("gpu", "NoSchedule"), True, "a"),
    no_execute_drives_out_what_is_there=(NONE_TOLERATED, tainted("gpu", "NoExecute"), True, "b"),
    prefer_no_schedule_comes_late=(NONE_TOLERATED, tainted("slow", "PreferNoSchedule"), False, "b"),
    a_tolerated_taint_comes_in_its_turn=({"tolerations": [GPU]}, tainted("gpu"), False, "a"),
    only_nodes_that_match=({"replicas": "all", "matchExpressions": [GPU]}, make_node("a", labels=LABELS), False, "a"),
)
def test_where_a_dataset_is_placed(cache: dict[str, Any], first: NodeView, held: bool, node: str) -> None:
    dataset = listed(make_dataset(cache=cache))
    parts: list[Any] = [dataset, first, make_node("b"), *([make_holder("a", dataset)] if held else [])]
    assert decided(*parts).plans[KEY].placement.roles == {node: Role.REPLICA}


def test_why_a_named_node_cannot_hold_it_is_said() -> None:
    cache = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}], "tolerations": []}
    dataset = make_dataset(cache=cache, warm={"nodes": ["a", "b"]})
    decision = decided(dataset, tainted("x", labels=LABELS), make_node("b"))
    (found,) = [one for one in decision.status(KEY, "", (), 0.0).conditions if one.type == "NodesFound"]
    assert "a has the taint x, which cache.tolerations does not name" in found.message
    assert "b does not match cache.matchExpressions" in found.message
