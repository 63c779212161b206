"""Nodes by name, pages and memory of a Dataset, on a real API server: accepted values, and plans of nodes."""

from typing import Any

from stoker_api.datasets.dataset import Dataset
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.nodecache import NodeCache
from stoker_kube.resources import NODE_CACHES
from stoker_operator.core.views.conditions import find
from tests.integration.stoker_operator.conftest import World


async def _entry(world: World, node: str) -> NodeDataset:
    def found(raw: dict[str, Any]) -> bool:
        return any(one.name == "digits" and one.eager for one in NodeCache.model_validate(raw).spec.datasets)

    raw = await world.until(NODE_CACHES, node, found)
    return next(one for one in NodeCache.model_validate(raw).spec.datasets if one.name == "digits")


async def test_just_the_node_that_is_named_is_told_and_a_name_that_is_none_is_said(world: World) -> None:
    chosen, other = await world.add_node(), await world.add_node()
    memory = {"names": True, "bytes": "1Gi"}
    warm = {"nodes": [chosen.node, "no-such-node"], "pages": True}
    await world.add_dataset(warm=warm, cache={"replicas": "all", "memory": memory})
    entry = await _entry(world, chosen.node)
    assert (entry.pages, entry.memory_names, entry.memory_bytes) == ("spec", False, None)  # without a class: no memory

    def just_one_is_missing(one: Dataset) -> bool:
        # Before the operator has seen the chosen node, both names are missing.
        found = find(one.status.conditions, ConditionType.NODES_FOUND)
        return found is not None and "no-such-node is not a node of this cluster" in found.message

    dataset = await world.until_dataset(just_one_is_missing)
    found = find(dataset.status.conditions, ConditionType.NODES_FOUND)
    assert found is not None
    assert (found.status, found.reason) == ("False", Reason.NODE_NOT_FOUND)
    raw = await world.until(NODE_CACHES, other.node, bool)
    assert not [one for one in NodeCache.model_validate(raw).spec.datasets if one.eager and one.name == "digits"]
    limited = find(dataset.status.conditions, ConditionType.LIMITED)
    assert limited is not None
    assert "cache.memory.names is ignored" in limited.message
