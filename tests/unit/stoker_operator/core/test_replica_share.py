"""Replicas as a share of the nodes: rounded up, steady while nodes join and leave, within the limits of the class."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from stoker_api.datasets.dataset import Dataset
from stoker_api.names import ConditionType
from stoker_operator.core.classes.class_limits import Limited, apply_class, share_of, steady_share
from stoker_operator.core.placement.node_roles import Placement
from stoker_operator.core.views.conditions import find
from tests.unit.stoker_operator.builders import (
    NOW,
    decide_once,
    decided,
    make_class,
    make_dataset,
    make_node,
    make_view,
)

NODES = st.integers(0, 10_000)
PERCENT = st.integers(1, 100).map(lambda number: f"{number}%")
KEY = "vision/imagenet"


def half(**meta: Any) -> Dataset:
    return make_dataset(cache={"replicas": "50%"}, **meta)


def placed(dataset: Dataset, count: int) -> Placement:
    return decided(dataset, *(make_node(f"n{number:02}") for number in range(count))).plans[KEY].placement


@pytest.mark.parametrize(("nodes", "share"), [(0, 0), (1, 1), (2, 1), (3, 2), (5, 3), (5000, 2500)])
def test_a_share_is_rounded_up(nodes: int, share: int) -> None:
    assert share_of("50%", nodes) == share


@for_all(PERCENT, NODES, st.none() | NODES)
def test_it_is_never_less_than_was_asked_for_nor_more_than_the_nodes(
    replicas: str, nodes: int, last: int | None
) -> None:
    found = steady_share(replicas, nodes, last)
    assert share_of(replicas, nodes) <= found <= nodes


@for_all(PERCENT, NODES, st.none() | NODES)
def test_what_it_came_to_stays_while_nothing_changes(replicas: str, nodes: int, last: int | None) -> None:
    found = steady_share(replicas, nodes, last)
    assert steady_share(replicas, nodes, found) == found


@for_all(PERCENT, st.integers(1, 10_000))
def test_a_node_that_goes_and_comes_back_changes_nothing(replicas: str, nodes: int) -> None:
    before = steady_share(replicas, nodes, None)
    during = steady_share(replicas, nodes - 1, before)
    assert during == before or before == nodes  # a share that needs all nodes must shrink with them
    assert steady_share(replicas, nodes, during) == before


@for_all(PERCENT, st.integers(10, 10_000))
def test_it_falls_when_a_fifth_of_the_nodes_is_gone(replicas: str, nodes: int) -> None:
    before = steady_share(replicas, nodes, None)
    fewer = nodes * 4 // 5
    assert steady_share(replicas, fewer, before) <= share_of(replicas, fewer + max(1, fewer // 10))


def test_as_many_nodes_hold_it_and_the_status_says_so() -> None:
    decision = decided(half(), *(make_node(f"n{number}") for number in range(5)))
    assert len(decision.plans[KEY].placement.roles) == 3
    assert decision.status(KEY, "", (), NOW).share_of_nodes == 3


def test_what_it_came_to_last_counts_while_the_spec_is_the_same() -> None:
    status = {"shareOfNodes": 6, "observedGeneration": 1}
    assert placed(half(status=status), 10).desired == 6
    assert placed(half(status=status, generation=2), 10).desired == 5


def test_a_number_of_replicas_is_none_of_it() -> None:
    decision = decided(make_dataset(cache={"replicas": 2}), make_node("a"))
    assert decision.status(KEY, "", (), NOW).share_of_nodes is None


def test_a_node_that_is_silent_for_a_moment_still_counts_and_one_that_is_lost_does_not() -> None:
    dataset = make_dataset(cache={"replicas": "100%"})
    for silence, desired in ((100.0, 2), (301.0, 1)):
        silent = make_node("b", ready=False, not_ready_since=NOW - silence)
        assert decided(dataset, make_node("a"), silent).plans[KEY].placement.desired == desired


def test_a_class_bounds_what_it_comes_to_and_that_is_said() -> None:
    limited = apply_class(half(), make_class(maxReplicas=2))
    assert isinstance(limited, Limited)
    assert limited.terms.limits == ()
    for count, desired, status in ((4, 2, None), (10, 2, "True")):
        nodes = [make_node(f"n{number}") for number in range(count)]
        view = replace(make_view(limited.dataset, *nodes), terms={KEY: limited.terms})
        decision = decide_once(view)
        assert decision.plans[KEY].placement.desired == desired
        condition = find(decision.status(KEY, "", (), NOW).conditions, ConditionType.LIMITED)
        assert (condition and condition.status) == status
