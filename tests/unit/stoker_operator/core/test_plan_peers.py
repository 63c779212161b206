"""The peers in the NodeCache of a node that shares a download with them."""

from dataclasses import replace

import pytest

from stoker_api.names import ANNOTATION_PEERS
from stoker_api.node_caches.node_dataset import EVERYTHING, NodeDataset
from stoker_operator.core.classes.class_limits import Limited, apply_class
from stoker_operator.core.peers.peer_groups import PeerSettings
from tests.unit.stoker_operator.builders import (
    decide_once,
    decided,
    entry,
    listed,
    make_cache,
    make_class,
    make_dataset,
    make_node,
    make_view,
)

ZONE = "topology.kubernetes.io/zone"


def test_nodes_that_are_to_have_a_dataset_are_named_to_each_other() -> None:
    dataset = listed(make_dataset(cache={"replicas": 3}))
    nodes = [make_node(name, address=f"10.0.0.{number}:8082") for number, name in enumerate("abc")]
    entries = [entry(name, dataset, *nodes) for name in "abc"]
    assert [one.position for one in entries] == [0, 1, 2]
    assert entries[1].peers == ("10.0.0.0:8082", "10.0.0.2:8082")
    assert entries[1].groups.names == ("a", "c")


def test_a_node_that_is_revoked_is_named_to_nobody_and_told_of_nobody() -> None:
    dataset = listed(make_dataset(cache={"replicas": 3}))
    caches = [make_cache(name) for name in "abc"]
    meta = caches[1].metadata.model_copy(update={"annotations": {ANNOTATION_PEERS: "Off"}})
    caches[1] = caches[1].model_copy(update={"metadata": meta})
    parts = (dataset, *(make_node(name, address=f"10.0.0.{number}:8082") for number, name in enumerate("abc")), *caches)
    assert [entry(name, *parts).groups.names for name in "abc"] == [("c",), (), ("a",)]
    assert entry("b", *parts).peers == ()


@pytest.mark.parametrize(("told", "proof"), [({}, "Cryptographic"), ({"proof": "Checksum"}, "Checksum")])
def test_nodes_are_told_what_proves_bytes_of_others(told: dict[str, str], proof: str) -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}))
    nodes = [make_node(name, address=f"10.0.0.{number}:8082") for number, name in enumerate("ab")]
    kind = make_class("tenants", default=True, peers=told)
    view = make_view(dataset, *nodes, make_cache("a"), make_cache("b"))
    limited = apply_class(dataset, kind)
    assert isinstance(limited, Limited)
    view = replace(view, terms={dataset.key: limited.terms})
    writes = decide_once(view).nodes.writes
    assert [write.spec.datasets[0].groups.proof for write in writes] == [proof, proof]
    assert [len(write.spec.datasets[0].peers) for write in writes] == [1, 1]


def test_many_nodes_are_groups_that_divide_what_the_source_is_asked_for() -> None:
    names = [f"n{number:02}" for number in range(20)]
    dataset = listed(make_dataset(cache={"replicas": 20}))
    nodes = [make_node(name, address=f"10.0.0.{number}:8082") for number, name in enumerate(names)]
    parts = (dataset, *nodes)
    entries = [entry(name, *parts) for name in names]
    assert {len(one.peers) for one in entries} <= set(range(7, 16))
    shares = {(one.groups.first, one.groups.width) for one in entries}
    assert (len(shares), sum(width for _, width in shares)) == (2, EVERYTHING)
    assert all(one.links for one in entries)


def test_a_dataset_that_is_to_come_from_the_source_alone_is_divided_by_nobody() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}, warm={"peers": "Off"}))
    nodes = [make_node(name, address=f"10.0.0.{number}:8082") for number, name in enumerate("ab")]
    assert entry("a", dataset, *nodes).peers == ()


def _told(peer_settings: PeerSettings) -> dict[str, NodeDataset]:
    """Return the plan entries of three nodes. Two of them are in one rack."""
    dataset = listed(make_dataset(cache={"replicas": 3}))
    racks = {"a": "r1", "b": "r1", "c": "r2"}
    nodes = [make_node(name, labels={ZONE: "z1", "example.com/rack": rack}) for name, rack in racks.items()]
    view = replace(make_view(dataset, *nodes), peer_settings=peer_settings)
    return {write.node.name: write.spec.datasets[0] for write in decide_once(view).nodes.writes}


def test_nodes_are_told_which_others_are_near() -> None:
    told = _told(PeerSettings(rack_label="example.com/rack"))
    assert {name: one.groups.distances for name, one in told.items()} == {"a": (0, 1), "b": (0, 1), "c": ()}


def test_without_a_label_of_racks_nodes_of_one_zone_are_alike() -> None:
    assert [one.groups.distances for one in _told(PeerSettings()).values()] == [()] * 3


def test_where_the_cluster_has_no_peers_nobody_is_told_of_any() -> None:
    assert [one.peers for one in _told(PeerSettings(on=False)).values()] == [()] * 3


@pytest.mark.parametrize("address", ["", "evil.example.com/x", "10.0.0.1:8082@evil"])
def test_nobody_is_sent_to_what_is_no_address(address: str) -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}))
    nodes = (make_node("a", address="10.0.0.1:8082"), make_node("b", address=address))
    assert entry("a", dataset, *nodes).peers == ()


def test_a_dataset_that_nobody_warms_up_is_divided_by_nobody() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}, warm={"policy": "Manual"}))
    nodes = [make_node(name, address=f"10.0.0.{number}:8082") for number, name in enumerate("ab")]
    assert entry("a", dataset, *nodes).peers == ()


@pytest.mark.parametrize("reads", [True, False])
def test_peers_stand_once_in_the_plan_of_a_node_that_says_that_it_reads_them_so(reads: bool) -> None:
    cache = make_cache("a")
    says = cache.model_copy(update={"status": cache.status.model_copy(update={"shared_neighbours": reads})})
    dataset = listed(make_dataset(cache={"replicas": 1}))
    (write,) = decided(dataset, make_node("a"), says).nodes.writes
    assert write.shared_neighbours is reads


def test_a_node_that_has_said_nothing_yet_is_told_of_peers_in_each_row() -> None:
    (write,) = decided(listed(make_dataset(cache={"replicas": 1})), make_node("a")).nodes.writes
    assert not write.shared_neighbours


def _entries_of_all(names: list[str]) -> dict[str, dict[str, NodeDataset]]:
    """Return each node's plan entries for two Datasets that all nodes have."""
    datasets = [listed(make_dataset(name, cache={"replicas": "all"})) for name in ("imagenet", "coco")]
    nodes = [make_node(name, address=f"10.0.0.1:{int(name[1:])}") for name in names]
    writes = decided(*datasets, *nodes).nodes.writes
    return {write.node.name: {one.name: one for one in write.spec.datasets} for write in writes}


def test_a_node_that_goes_is_one_write_for_each_that_is_told_however_many_datasets_they_have() -> None:
    names = [f"n{number}" for number in range(1, 121)]
    before, after = _entries_of_all(names), _entries_of_all([name for name in names if name != "n60"])
    changed = [{name for name in after if after[name][one] != before[name][one]} for one in ("imagenet", "coco")]
    assert changed[0] == changed[1]
    assert 0 < len(changed[0]) < len(names) - 1
