"""Which other nodes NodeCaches name to a node that is to divide a dataset with them."""

from dataclasses import replace

import pytest

from stoker_api.node_dataset import EVERYTHING, NodeDataset
from stoker_api.nodecache import NodeCache
from stoker_operator.core.dataset_decision import decide_datasets
from stoker_operator.core.nearness import ClusterNeighbours
from tests.unit.stoker_operator.builders import (
    NOW,
    decided,
    entry,
    listed,
    make_cache,
    make_dataset,
    make_node,
    make_view,
)

ZONE = "topology.kubernetes.io/zone"


def _address(cache: NodeCache, address: str) -> NodeCache:
    return cache.model_copy(update={"status": cache.status.model_copy(update={"address": address})})


def test_nodes_that_are_to_have_a_dataset_are_named_to_each_other() -> None:
    dataset = listed(make_dataset(cache={"replicas": 3}))
    caches = [_address(make_cache(name), f"10.0.0.{number}:8082") for number, name in enumerate("abc")]
    nodes = [make_node(name) for name in "abc"]
    entries = [entry(name, dataset, *nodes, *caches) for name in "abc"]
    assert [one.position for one in entries] == [0, 1, 2]
    assert entries[1].peers == ("10.0.0.0:8082", "10.0.0.2:8082")


def test_many_nodes_are_groups_that_divide_what_the_source_is_asked_for() -> None:
    names = [f"n{number:02}" for number in range(20)]
    dataset = listed(make_dataset(cache={"replicas": 20}))
    caches = [_address(make_cache(name), f"10.0.0.{number}:8082") for number, name in enumerate(names)]
    parts = (dataset, *(make_node(name) for name in names), *caches)
    entries = [entry(name, *parts) for name in names]
    assert {len(one.peers) for one in entries} <= set(range(7, 16))
    shares = {(one.groups.first, one.groups.width) for one in entries}
    assert (len(shares), sum(width for _, width in shares)) == (2, EVERYTHING)
    assert all(one.links for one in entries)


def test_a_dataset_that_is_to_come_from_the_source_alone_is_divided_by_nobody() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}, warm={"neighbours": "Off"}))
    caches = [_address(make_cache(name), f"10.0.0.{number}:8082") for number, name in enumerate("ab")]
    assert entry("a", dataset, make_node("a"), make_node("b"), *caches).peers == ()


def _told(neighbours: ClusterNeighbours) -> dict[str, NodeDataset]:
    """Return what three nodes are told, of which two stand in one rack."""
    dataset = listed(make_dataset(cache={"replicas": 3}))
    caches = [_address(make_cache(name), f"10.0.0.{number}:8082") for number, name in enumerate("abc")]
    racks = {"a": "r1", "b": "r1", "c": "r2"}
    nodes = [make_node(name, labels={ZONE: "z1", "example.com/rack": rack}) for name, rack in racks.items()]
    view = replace(make_view(dataset, *nodes, *caches), neighbours=neighbours)
    return {write.node.name: write.spec.datasets[0] for write in decide_datasets(view, {}, NOW).nodes.writes}


def test_nodes_are_told_which_others_are_near() -> None:
    told = _told(ClusterNeighbours(rack_label="example.com/rack"))
    assert {name: one.groups.distances for name, one in told.items()} == {"a": (0, 1), "b": (0, 1), "c": ()}


def test_without_a_label_of_racks_nodes_of_one_zone_are_alike() -> None:
    assert [one.groups.distances for one in _told(ClusterNeighbours()).values()] == [()] * 3


def test_where_the_cluster_has_no_neighbours_nobody_is_told_of_any() -> None:
    assert [one.peers for one in _told(ClusterNeighbours(on=False)).values()] == [()] * 3


@pytest.mark.parametrize("address", ["", "evil.example.com/x", "10.0.0.1:8082@evil"])
def test_nobody_is_sent_to_what_is_no_address(address: str) -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}))
    caches = (_address(make_cache("a"), "10.0.0.1:8082"), _address(make_cache("b"), address))
    assert entry("a", dataset, make_node("a"), make_node("b"), *caches).peers == ()


def test_a_dataset_that_nobody_warms_up_is_divided_by_nobody() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}, warm={"policy": "Manual"}))
    caches = [_address(make_cache(name), f"10.0.0.{number}:8082") for number, name in enumerate("ab")]
    assert entry("a", dataset, make_node("a"), make_node("b"), *caches).peers == ()


@pytest.mark.parametrize("reads", [True, False])
def test_neighbours_stand_once_in_the_plan_of_a_node_that_says_that_it_reads_them_so(reads: bool) -> None:
    cache = _address(make_cache("a"), "10.0.0.1:8082")
    says = cache.model_copy(update={"status": cache.status.model_copy(update={"shared_neighbours": reads})})
    dataset = listed(make_dataset(cache={"replicas": 1}))
    (write,) = decided(dataset, make_node("a"), says).nodes.writes
    assert write.shared_neighbours is reads


def test_a_node_that_has_said_nothing_yet_is_told_of_neighbours_in_each_row() -> None:
    (write,) = decided(listed(make_dataset(cache={"replicas": 1})), make_node("a")).nodes.writes
    assert not write.shared_neighbours


def _entries_of_all(names: list[str]) -> dict[str, dict[str, NodeDataset]]:
    """Return by node what each is told of two Datasets that all nodes have."""
    datasets = [listed(make_dataset(name, cache={"replicas": "all"})) for name in ("imagenet", "coco")]
    caches = [_address(make_cache(name), f"10.0.0.1:{int(name[1:])}") for name in names]
    writes = decided(*datasets, *(make_node(name) for name in names), *caches).nodes.writes
    return {write.node.name: {one.name: one for one in write.spec.datasets} for write in writes}


def test_a_node_that_goes_is_one_write_for_each_that_is_told_however_many_datasets_they_have() -> None:
    names = [f"n{number}" for number in range(1, 121)]
    before, after = _entries_of_all(names), _entries_of_all([name for name in names if name != "n60"])
    changed = [{name for name in after if after[name][one] != before[name][one]} for one in ("imagenet", "coco")]
    assert changed[0] == changed[1]
    assert 0 < len(changed[0]) < len(names) - 1
