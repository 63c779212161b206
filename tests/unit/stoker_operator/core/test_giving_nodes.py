"""Idle data goes to other nodes from a few of its holders, while few nodes can send it."""

from typing import Any

import pytest

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.warm_paths import WarmPathsStatus, paths_digest
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.placement.node_roles import Role
from stoker_operator.core.plans.giving_nodes import GivingNodes
from stoker_operator.core.views.cluster import NodeView
from tests.unit.stoker_operator.builders import (
    SIZE,
    V2,
    decided,
    given,
    listed,
    make_cache,
    make_dataset,
    make_holder,
    make_node,
    report,
)

KEY = "vision/imagenet"
ZONE = "topology.kubernetes.io/zone"
FOLLOWING = listed(make_dataset(cache={"replicas": 0}))  # a Dataset whose data follows pods
NEW = "z"  # the destination node of a pod


def moved(*others: NodeView | NodeCache, dataset: Dataset = FOLLOWING, new: NodeView | None = None) -> Decision:
    """Decide about a gated pod that goes to a node without any of its data."""
    return decided(dataset, *others, new or make_node(NEW), wanted={dataset.metadata.name: frozenset({NEW})})


def holders(*names: str, dataset: Dataset = FOLLOWING, **fields: Any) -> list[NodeView | NodeCache]:
    """Make nodes that have all of the data, with ``eager=False`` in their plans."""
    made: list[NodeView | NodeCache] = []
    for name in names:
        made += [make_node(name, **fields), make_cache(name, (given(dataset, eager=False), report(dataset)))]
    return made


def givers(decision: Decision) -> GivingNodes:
    return decision.plans[KEY].givers


def told(decision: Decision) -> dict[str, NodeDataset]:
    return {one.node.name: entry for one in decision.nodes.writes for entry in one.spec.datasets}


def test_a_node_to_which_a_pod_moves_asks_the_one_that_has_its_data_from_earlier() -> None:
    found = told(moved(*holders("a")))
    assert (found[NEW].peers, found[NEW].eager) == (("a:8081",), True)


def test_the_one_that_has_it_is_told_who_may_ask_and_fetches_nothing() -> None:
    found = told(moved(*holders("a")))
    assert (found["a"].peers, found["a"].eager) == ((f"{NEW}:8081",), False)


def test_where_nobody_lacks_any_of_it_nobody_is_asked() -> None:
    decision = moved(*holders("a"), make_holder(NEW, FOLLOWING))
    assert decision.plans[KEY].placement.roles == {"a": Role.IDLE, NEW: Role.USER}
    assert givers(decision) == GivingNodes()


@pytest.mark.parametrize("idle", [("a", "b"), ("a", "b", "c"), ()])
def test_at_rest_idle_nodes_that_come_and_go_rewrite_no_other(idle: tuple[str, ...]) -> None:
    dataset = listed(make_dataset(cache={"replicas": 1}))
    there = make_holder(NEW, dataset)
    (write,) = decided(dataset, make_node(NEW), there).nodes.writes
    there = there.model_copy(update={"spec": write.spec})
    decision = decided(dataset, make_node(NEW), there, *holders(*idle, dataset=dataset))
    assert NEW not in {one.node.name for one in decision.nodes.writes}


def test_a_few_of_many_are_asked() -> None:
    many = [f"n{number:03}" for number in range(100)]
    assert len(givers(moved(*holders(*many))).idle) == 4


def test_of_many_the_same_ones_are_asked_when_another_one_goes() -> None:
    many = [f"n{number:03}" for number in range(100)]
    chosen = givers(moved(*holders(*many))).idle
    other = next(name for name in many if name not in chosen)
    assert givers(moved(*holders(*(name for name in many if name != other)))).idle == chosen


def test_those_in_a_zone_where_it_is_to_be_are_asked_first() -> None:
    far, near = [f"n{number}" for number in range(20)], ["a", "b", "c", "d"]
    parts = [*holders(*far, labels={ZONE: "west"}), *holders(*near, labels={ZONE: "east"})]
    assert givers(moved(*parts, new=make_node(NEW, labels={ZONE: "east"}))).idle == tuple(near)


@pytest.mark.parametrize(("whole", "idle"), [(("r1", "r2"), ()), (("r1",), ("a",)), ((), ("a",))])
def test_none_is_asked_where_two_of_those_that_are_to_have_it_have_all_of_it(
    whole: tuple[str, ...], idle: tuple[str, ...]
) -> None:
    replicas = ("r1", "r2", "r3")
    dataset = listed(make_dataset(warm={"nodes": list(replicas)}))
    there = [make_holder(name, dataset, SIZE if name in whole else 300) for name in replicas]
    decision = decided(dataset, *holders("a", dataset=dataset), *map(make_node, replicas), *there)
    assert givers(decision).idle == idle


def test_one_that_is_not_ready_is_not_asked() -> None:
    assert givers(moved(*holders("a", ready=False, not_ready_since=1.0))) == GivingNodes()


@pytest.mark.parametrize("row", [{"warm": 900, "phase": NodePhase.IDLE}, {"version": V2}])
def test_one_that_has_a_part_or_another_version_is_not_asked(row: dict[str, Any]) -> None:
    part = make_cache("a", (given(FOLLOWING, eager=False), report(FOLLOWING, **row)))
    decision = moved(make_node("a"), part)
    assert decision.plans[KEY].placement.roles["a"] is Role.IDLE
    assert givers(decision) == GivingNodes()


@pytest.mark.parametrize(("files", "idle"), [(4, ("a",)), (3, ())])
def test_of_named_paths_one_is_asked_that_has_all_that_they_name(files: int, idle: tuple[str, ...]) -> None:
    dataset = listed(make_dataset(cache={"replicas": 0}, warm={"paths": ["train/"]}))
    paths = dataset.spec.warm.told_paths
    part = WarmPathsStatus(digest=paths_digest(paths), files=4, bytes=400, warm_files=files, warm_bytes=100 * files)
    row = report(dataset, 100 * files, phase=NodePhase.IDLE, warm_paths=part)
    there = make_cache("a", (given(dataset, eager=False, warm_paths=paths), row))
    assert givers(moved(make_node("a"), there, dataset=dataset)).idle == idle


@pytest.mark.parametrize(("warm", "whole"), [(SIZE, True), (300, False)])
def test_one_that_leaves_with_a_part_does_not_spare_the_source_all(warm: int, whole: bool) -> None:
    node = make_node("a", leaving="it has the taint x")
    assert givers(moved(node, make_holder("a", FOLLOWING, warm))) == GivingNodes(leaving=("a",), whole=whole)
