"""A NodeCache stores peers shared by several Datasets once. Parsed rows each contain them."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stoker_api.datasets.dataset_source import Source
from stoker_api.node_caches.node_dataset import NodeDataset, PeerLinks
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_operator.core.views.node_cache_reader import NodeCacheReader

SOURCE = Source(uri="s3://bucket/data/")
HOSTS = tuple(f"10.0.0.{number}:8081" for number in range(40))
ALIKE: Mapping[str, Any] = {"peers": HOSTS[:15], "position": 3, "groups": PeerLinks(links=HOSTS[15:27])}
NEIGHBOURS = st.sampled_from([{}, ALIKE, ALIKE, {"peers": HOSTS[:2]}, {"peers": HOSTS[:2], "position": 1}])


def row(number: int, **peers: Any) -> NodeDataset:
    name = f"set-{number}"
    return NodeDataset(namespace="team", name=name, uid=name, source=SOURCE, version="d" * 64, **peers)


def stored(spec: NodeCacheSpec) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(spec.wire(shared_neighbours=True)))
    return {"metadata": {"name": "node-1"}, "spec": body}


@given(st.lists(NEIGHBOURS, max_size=8))
def test_whoever_reads_it_has_what_was_written(peers: list[Mapping[str, Any]]) -> None:
    spec = NodeCacheSpec(datasets=tuple(row(number, **one) for number, one in enumerate(peers)), keep=("x",))
    assert NodeCache.model_validate(stored(spec)).spec == spec
    assert NodeCacheReader().view(stored(spec)).spec == spec


def test_twenty_datasets_on_the_same_nodes_name_their_peers_once() -> None:
    spec = NodeCacheSpec(datasets=tuple(row(number, **ALIKE) for number in range(20)))
    text = json.dumps(stored(spec))
    assert text.count(HOSTS[0]) == text.count(HOSTS[20]) == 1
    assert len(text) < len(json.dumps(spec.wire())) / 3


def test_a_node_that_does_not_say_that_it_reads_them_is_told_in_each_row() -> None:
    wire = NodeCacheSpec(datasets=(row(0, **ALIKE), row(1, **ALIKE))).wire()
    assert "neighbourhoods" not in wire
    assert json.dumps(wire).count(HOSTS[0]) == 2


def test_peers_of_one_dataset_alone_stay_in_its_row() -> None:
    assert "neighbourhoods" not in stored(NodeCacheSpec(datasets=(row(0, **ALIKE), row(1))))["spec"]


@pytest.mark.parametrize("rows", [[2], [-1], ["first"], "0", None])
def test_peers_of_a_row_that_is_not_there_are_refused(rows: object) -> None:
    raw = stored(NodeCacheSpec(datasets=(row(0), row(1))))
    raw["spec"]["neighbourhoods"] = [{"rows": rows, "peers": ["10.0.0.1:8081"]}]
    for read in (NodeCache.model_validate, NodeCacheReader().view):
        with pytest.raises(ValidationError):
            read(raw)


@pytest.mark.parametrize("blocks", ["all", 7, {"rows": [0]}, [7], [None]])
def test_peer_blocks_that_make_no_sense_are_refused(blocks: object) -> None:
    raw = stored(NodeCacheSpec(datasets=(row(0),)))
    raw["spec"]["neighbourhoods"] = blocks
    for read in (NodeCache.model_validate, NodeCacheReader().view):
        with pytest.raises(ValidationError):
            read(raw)
