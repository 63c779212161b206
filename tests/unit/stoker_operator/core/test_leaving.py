"""Data on a node that leaves soon: other nodes get it at once, and the node keeps its copy."""

from dataclasses import replace
from typing import Any

import pytest

from stoker_api.datasets.dataset import Dataset
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.times import format_time
from stoker_operator.core.classes.class_limits import ClassTerms
from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.placement.node_roles import Role
from stoker_operator.core.plans.listing import new_id
from stoker_operator.core.status.dataset_transitions import dataset_announcements
from stoker_operator.core.views.cluster import NodeView, PodView
from stoker_operator.core.views.conditions import find
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import (
    IMAGENET,
    NOW,
    SIZE,
    decide_once,
    decided,
    listed,
    make_dataset,
    make_holder,
    make_node,
    make_view,
    mount,
)
from tests.unit.stoker_operator.clusters import cluster, dataset, held, holding, node
from tests.unit.stoker_operator.releases import decide_releases

KEY = "vision/imagenet"
TAINT = "it has the taint x"


def leaving(name: str, **fields: Any) -> NodeView:
    return make_node(name, leaving=TAINT, **fields)


def three(**cache: Any) -> tuple[Dataset, Decision]:
    """Decide about two replicas, one on a node that leaves soon. A third node is free."""
    dataset = listed(make_dataset(cache={"replicas": 2} | cache))
    nodes = leaving("a"), make_node("b"), make_node("c")
    return dataset, decided(dataset, *nodes, make_holder("a", dataset), make_holder("b", dataset))


def entries(decision: Decision) -> dict[str, NodeDataset]:
    return {one.node.name: entry for one in decision.nodes.writes for entry in one.spec.datasets}


def moving(decision: Decision) -> tuple[str, str, str]:
    condition = find(decision.status(KEY, "", (), NOW).conditions, ConditionType.MOVING)
    return ("", "", "") if condition is None else (condition.status, condition.reason, condition.message)


DATASET, DECISION = three()


def test_another_node_takes_the_place_at_once() -> None:
    assert DECISION.plans[KEY].placement.roles == {"a": Role.LEAVING, "b": Role.REPLICA, "c": Role.REPLICA}


def test_the_node_that_leaves_keeps_its_entry_and_fetches_nothing_more() -> None:
    found = entries(DECISION)
    assert (found["a"].eager, found["c"].eager) == (False, True)


def test_the_node_that_leaves_is_one_of_those_that_hand_out_the_manifest() -> None:
    dataset, _ = three()
    asked = {"listing_id": new_id(dataset, NOW - 60), "listing_node": "a", "listed_at": format_time(NOW - 30)}
    dataset = dataset.model_copy(update={"status": dataset.status.model_copy(update=asked)})
    only = decided(dataset, leaving("a"), make_node("c"), make_holder("a", dataset))
    assert entries(only)["c"].manifest_hosts == ("a:8081",)


def test_the_node_that_leaves_is_asked_by_those_that_stay() -> None:
    found = entries(DECISION)
    assert (found["c"].peers, found["c"].position, found["c"].eager) == (("a:8081", "b:8081"), 2, True)
    assert found["a"].peers == ("b:8081", "c:8081")


@pytest.mark.parametrize(("warm", "peers"), [(300, ("a:8081",)), (0, ())])
def test_a_node_that_leaves_with_a_part_of_it_gives_that(warm: int, peers: tuple[str, ...]) -> None:
    there = make_holder("a", IMAGENET, warm)
    assert entries(decided(IMAGENET, leaving("a"), make_node("c"), there))["c"].peers == peers


def test_its_node_cache_says_why() -> None:
    assert {one.node.name: one.spec.leaving for one in DECISION.nodes.writes} == {"a": TAINT, "b": "", "c": ""}


def test_its_owner_is_told_who_takes_over() -> None:
    sentence = "1 of 2 replicas are complete on nodes that stay; a is leaving (it has the taint x); c takes over"
    assert moving(DECISION) == ("True", Reason.NODE_LEAVING, sentence)


def test_its_owner_is_told_when_it_may_go() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}))
    caches = [make_holder(name, dataset) for name in "abc"]
    status, reason, sentence = moving(decided(dataset, leaving("a"), make_node("b"), make_node("c"), *caches))
    assert (status, reason) == ("False", Reason.HANDED_OVER)
    assert (
        sentence == "2 of 2 replicas are complete on nodes that stay; a is leaving (it has the taint x), and can leave"
    )


def test_its_owner_is_told_when_nobody_can_take_over() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}))
    found = moving(decided(dataset, leaving("a"), make_node("b"), make_holder("a", dataset), make_holder("b", dataset)))
    assert "no other node can take it over" in found[2]


def test_both_are_events_once() -> None:
    dataset, decision = three()
    before, after = dataset.status, decision.status(KEY, "", (), NOW)
    assert [one.reason for one in dataset_announcements(before, after)].count(Reason.NODE_LEAVING) == 1
    assert Reason.NODE_LEAVING not in [one.reason for one in dataset_announcements(after, after)]


def test_nothing_is_said_where_no_node_is_about_to_go() -> None:
    assert moving(decided(IMAGENET, make_node("a"), make_holder("a", IMAGENET))) == ("", "", "")


def test_a_node_that_is_only_cordoned_keeps_its_replica() -> None:
    placed = decided(IMAGENET, make_node("a", schedulable=False), make_node("b"), make_holder("a", IMAGENET)).plans[KEY]
    assert placed.placement.roles == {"a": Role.REPLICA}


def test_a_node_that_stays_after_all_is_a_replica_again_and_what_came_meanwhile_is_kept() -> None:
    part = make_holder("b", IMAGENET, 300)
    placed = decided(IMAGENET, make_node("a"), make_node("b"), make_holder("a", IMAGENET), part).plans[KEY].placement
    assert placed.roles == {"a": Role.REPLICA, "b": Role.IDLE}


def test_pods_on_it_read_on_and_it_warms_no_more_for_them() -> None:
    dataset = listed(make_dataset(cache={"replicas": 0}))
    cache = make_holder("a", dataset, 300, mounts=(mount(dataset),))
    decision = decided(dataset, leaving("a"), cache, PodView("vision", "trainer", node="a"))
    assert decision.plans[KEY].placement.roles == {"a": Role.LEAVING}
    assert not entries(decision)["a"].eager


def test_what_a_quota_would_drop_stays_until_the_node_goes() -> None:
    dataset = listed(make_dataset(cache={"replicas": 1}))
    view = make_view(dataset, leaving("a"), make_node("b"), make_holder("a", dataset))
    view = replace(view, terms={KEY: ClassTerms("tight", namespace_quota=SIZE)})
    roles = decide_once(view).plans[KEY].placement.roles
    assert roles == {"a": Role.LEAVING, "b": Role.REPLICA}


@cases("replicas", of_all_nodes="all", of_a_share="100%")
def test_a_node_that_leaves_soon_is_not_counted(replicas: str) -> None:
    _, decision = three(replicas=replicas)
    assert decision.plans[KEY].placement.desired == 2


def test_data_of_a_deleted_dataset_is_not_kept_there() -> None:
    dataset = listed(make_dataset(deletionTimestamp="2026-02-01T00:00:00Z"))
    assert decided(dataset, leaving("a"), make_holder("a", dataset)).plans[KEY].placement.roles == {}


def test_a_new_version_is_listed_by_a_node_that_stays() -> None:
    dataset = make_dataset(cache={"replicas": 0})
    plan = decided(dataset, leaving("a"), make_node("b")).plans[KEY]
    assert plan.listing.node == "b"
    assert decided(dataset, leaving("a")).plans[KEY].listing.node == "a"


def test_no_held_pod_is_sent_there_though_it_is_warm() -> None:
    view = cluster(dataset(), replace(node("a"), leaving=TAINT), node("b"), held("p"), holding("a"), holding("b", 0.2))
    outcome = decide_releases(view, 1030.0)
    assert outcome.releases == ()
    assert outcome.wanted.nodes == {KEY: frozenset({"b"})}
