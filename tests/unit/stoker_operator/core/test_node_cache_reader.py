"""Equal parts of many NodeCaches are in memory once. The parsed values stay the same."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.views.node_cache_reader import NodeCacheReader
from tests.unit.stoker_operator.builders import given, listed, make_cache, make_dataset, report


def raw(node: str) -> dict[str, Any]:
    dataset = listed(make_dataset(source={"uri": "s3://bucket/", "credentials": {"secretRef": {"name": "keys"}}}))
    entry = given(dataset, peers=("c.example:8081", "d.example:8081"))
    text = json.dumps(make_cache(node, (entry, report(dataset))).wire())
    return json.loads(text)  # type: ignore[no-any-return]


def test_it_reads_what_the_model_reads() -> None:
    assert NodeCacheReader().view(raw("a")) == NodeCache.model_validate(raw("a"))


def test_texts_and_sources_of_two_nodes_are_the_same_objects() -> None:
    reader = NodeCacheReader()
    one, other = (reader.view(raw(node)).spec.datasets[0] for node in "ab")
    assert one.source is other.source
    assert one.version is other.version
    assert one.peers[0] is other.peers[0]


def test_peers_that_a_node_cache_names_once_are_one_object_of_all_its_rows() -> None:
    found = raw("a")
    rows = [found["spec"]["datasets"][0], found["spec"]["datasets"][0] | {"name": "other", "uid": "other"}]
    rows = [{key: value for key, value in row.items() if key != "peers"} for row in rows]
    block = {"rows": [0, 1], "peers": ["c.example:8081"], "groups": {"links": ["d.example:8081"], "width": 9}}
    found["spec"] = {"datasets": rows, "neighbourhoods": [block]}
    read = NodeCacheReader().view(found)
    one, other = read.spec.datasets
    assert (one.peers, one.groups.links) == (("c.example:8081",), ("d.example:8081",))
    assert (one.peers is other.peers, one.groups is other.groups) == (True, True)
    assert read == NodeCache.model_validate(found)


@pytest.mark.parametrize("broken", [{"datasets": [{"source": {"uri": 5}}]}, {"datasets": [7]}, {"datasets": 7}, 7])
def test_what_is_wrong_is_refused_as_the_model_refuses_it(broken: object) -> None:
    with pytest.raises(ValidationError) as expected:
        NodeCache.model_validate(raw("a") | {"spec": broken})
    with pytest.raises(ValidationError) as found:
        NodeCacheReader().view(raw("a") | {"spec": broken})
    assert found.value.errors(include_input=False) == expected.value.errors(include_input=False)
