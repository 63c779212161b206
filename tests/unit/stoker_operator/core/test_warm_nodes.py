"""A Dataset that names its warm nodes: placement, conditions and class."""

from typing import Any

import pytest

from stoker_api.datasets.cache_memory import WarmedPages
from stoker_api.datasets.dataset import Dataset
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.classes.class_limits import Limited, apply_class
from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.placement.node_roles import Role
from stoker_operator.core.status.warm_conditions import pages_verdict
from stoker_operator.core.views.conditions import find
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import (
    NOW,
    SIZE,
    condition,
    decided,
    given,
    listed,
    make_cache,
    make_class,
    make_dataset,
    make_node,
    report,
)

KEY = "vision/imagenet"


def _dataset(*nodes: str, **fields: Any) -> Dataset:
    return listed(make_dataset(warm={"nodes": list(nodes)}, **fields))


def _decided(dataset: Dataset, *caches: NodeCache) -> Decision:
    made = {cache.metadata.name: cache for cache in caches}
    rest = [made.get(name, make_cache(name)) for name in "abc"]
    return decided(dataset, *(make_node(name, labels={"pool": name}) for name in "abc"), *rest)


def _replicas(found: Decision) -> tuple[str, ...]:
    return found.plans[KEY].placement.nodes(Role.REPLICA)


def _nodes_found(found: Decision) -> tuple[str, str, str]:
    one = condition(found.status(KEY, "", (), NOW), ConditionType.NODES_FOUND)
    return one.status, one.reason, one.message


@pytest.mark.parametrize("replicas", [0, 1, "all"])
def test_the_nodes_that_are_named_hold_it_and_no_others(replicas: Any) -> None:
    found = _decided(_dataset("c", "b", cache={"replicas": replicas}))
    assert _replicas(found) == ("b", "c")
    assert _nodes_found(found)[:2] == ("True", Reason.NODES_FOUND)


def test_a_name_that_is_no_nodes_is_told_and_the_others_are_warmed() -> None:
    found = _decided(_dataset("b", "z"))
    assert _replicas(found) == ("b",)
    status, reason, message = _nodes_found(found)
    assert (status, reason) == ("False", Reason.NODE_NOT_FOUND)
    assert "z is not a node of this cluster" in message


def test_a_node_that_the_selector_leaves_out_is_told() -> None:
    found = _decided(_dataset("a", "b", cache={"nodeSelector": {"pool": "b"}}))
    assert _replicas(found) == ("b",)
    assert "a does not match cache.nodeSelector" in _nodes_found(found)[2]


def test_what_is_warm_elsewhere_stays_while_nobody_needs_the_room() -> None:
    dataset = _dataset("b")
    entry = given(dataset, eager=True)
    warm = make_cache("a", (entry, report(dataset, SIZE, phase=NodePhase.WARM)))
    found = _decided(dataset, warm)
    assert _replicas(found) == ("b",)
    assert found.plans[KEY].placement.roles["a"] is Role.IDLE


def test_without_names_there_is_no_such_condition() -> None:
    status = _decided(listed(make_dataset())).status(KEY, "", (), NOW)
    assert find(status.conditions, ConditionType.NODES_FOUND) is None


def test_a_class_cuts_the_names_as_it_cuts_replicas() -> None:
    taken = apply_class(_dataset("a", "b", "c"), make_class(maxReplicas=2))
    assert isinstance(taken, Limited)
    assert taken.dataset.spec.warm.nodes == ("a", "b")
    assert "only the first 2 of 3 warm.nodes are used" in taken.terms.limits[0]


def test_a_class_may_let_no_pages_be_brought() -> None:
    taken = apply_class(make_dataset(warm={"pages": True}), make_class(memory={"pages": False}))
    assert isinstance(taken, Limited)
    assert not taken.dataset.spec.warm.pages
    assert "warm.pages is ignored" in taken.terms.limits[0]


DONE = WarmedPages(request="1", bytes=10, read_bytes=10, done=True)


@cases(
    "rows, status, said",
    ({}, False, "0 of 0 nodes"),
    ({"a": None, "b": DONE}, False, "1 of 2 nodes, 10 B of 10 B"),
    ({"a": DONE, "b": DONE}, True, "2 of 2 nodes, 20 B of 20 B in the page cache"),
    ({"a": DONE.model_copy(update={"request": "0"})}, False, "0 of 1 nodes"),
    ({"a": DONE.model_copy(update={"read_bytes": 4})}, True, "has no room for the rest"),
)
def test_pages_are_warm_when_each_node_has_read_them_for_the_last_request(
    rows: dict[str, WarmedPages | None], status: bool, said: str
) -> None:
    found = pages_verdict("1", rows)
    assert found[0] is status
    assert said in found[2]


def test_nodes_are_told_of_which_request_the_pages_are() -> None:
    dataset = _dataset("b")
    spec = dataset.spec.model_copy(update={"warm": dataset.spec.warm.model_copy(update={"pages": True})})
    metadata = dataset.metadata.model_copy(update={"annotations": {"stoker.dev/warm-requested": "x" * 500}})
    found = _decided(dataset.model_copy(update={"spec": spec, "metadata": metadata}))
    entries = [entry for write in found.nodes.writes for entry in write.spec.datasets if entry.eager]
    assert [len(entry.pages) for entry in entries] == [64]
