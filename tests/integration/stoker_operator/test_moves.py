"""Where replicas may be, and what becomes of them when a node is drained, on a real API server."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from stoker_api.dataset import Dataset
from stoker_api.dataset_status import Phase
from stoker_api.names import ConditionType, Reason
from stoker_api.node_dataset import NodeDataset
from stoker_api.nodecache import NodeCache
from stoker_kube.errors import Invalid
from stoker_kube.resources import DATASETS, NODE_CACHES, NODES, PODS
from stoker_operator.core.conditions import find
from stoker_operator.mirror.leaving_nodes import DRAINED
from tests.integration.stoker_operator.conftest import World
from tests.support.places import RIGHT_PLACES, WRONG_PLACES


async def refused(world: World, name: str, cache: Mapping[str, Any]) -> bool:
    body = {"source": {"uri": "s3://bucket/"}, "cache": {"nodeSelector": {"test": world.label}} | dict(cache)}
    try:
        await world.kube.create(DATASETS, {"metadata": {"name": name, "namespace": world.namespace}, "spec": body})
    except Invalid:
        return True
    return False


async def test_the_api_server_takes_what_the_models_take_and_refuses_the_rest(world: World) -> None:
    found = {number: await refused(world, f"wrong-{number}", cache) for number, cache in enumerate(WRONG_PLACES)}
    assert [WRONG_PLACES[number] for number, no in found.items() if not no] == []
    found = {number: await refused(world, f"right-{number}", cache) for number, cache in enumerate(RIGHT_PLACES)}
    assert [RIGHT_PLACES[number] for number, no in found.items() if no] == []
    wrong = ({"replicas": share} for share in ("0%", "101%", "5", "half", "1.5%"))
    assert [await refused(world, f"share-{number}", cache) for number, cache in enumerate(wrong)] == [True] * 5


async def test_wrong_places_are_refused_with_sentences(world: World) -> None:
    key = "is not the key of a label or taint: write for example gpu.memory or topology.kubernetes.io/zone"
    wrong: tuple[tuple[Mapping[str, Any], str], ...] = (
        ({"replicas": "half"}, "cache.replicas must be 0 to 10000, or 'all', or a share of the nodes, 1% to 100%"),
        ({"topologySpread": {"topologyKey": "a zone"}}, f"a zone {key}"),
        ({"topologySpread": {"topologyKey": "zone", "maxSkew": 0}}, "should be greater than or equal to 1"),
        ({"topologySpread": {"topologyKey": "zone", "whenUnsatisfiable": "Maybe"}}, 'values: "DoNotSchedule", "Sched'),
        ({"tolerations": [{"key": "-gpu"}]}, f"-gpu {key}"),
    )
    for number, (cache, sentence) in enumerate(wrong):
        body = {"source": {"uri": "s3://bucket/"}, "cache": cache}
        metadata = {"name": f"wrong-{number}", "namespace": world.namespace}
        with pytest.raises(Invalid, match=re.escape(sentence)):
            await world.kube.create(DATASETS, {"metadata": metadata, "spec": body})


async def entry(world: World, node: str, *, eager: bool) -> NodeDataset:
    """Return what a node is told of the Dataset, once it is told to fetch it, or no more."""

    def found(raw: dict[str, Any]) -> bool:
        return any(one.name == "digits" and one.eager is eager for one in NodeCache.model_validate(raw).spec.datasets)

    raw = await world.until(NODE_CACHES, node, found)
    return next(one for one in NodeCache.model_validate(raw).spec.datasets if one.name == "digits")


async def drain(world: World, node: str) -> None:
    """Cordon a node and evict a pod of it, as kubectl does."""
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "none"}]}
    await world.kube.create(PODS, {"metadata": {"name": "worker", "namespace": world.namespace}, "spec": spec})
    await world.kube.patch(PODS, "worker", {"status": {"phase": "Running"}}, world.namespace, subresource="status")
    await world.kube.patch(NODES, node, {"spec": {"unschedulable": True}})
    meta = {"name": "worker", "namespace": world.namespace}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    await world.kube.create_subresource(PODS, "worker", world.namespace, "eviction", eviction)


async def test_a_node_that_is_drained_hands_over_and_keeps_what_it_has(world: World) -> None:
    first = await world.add_node()
    first.share = 1.0
    await world.add_dataset()
    await world.until_dataset(lambda one: one.status.phase is Phase.READY)
    second = await world.add_node()
    await world.kube.patch(NODES, first.node, {"spec": {"unschedulable": True}})  # a cordon alone moves nothing
    await world.kube.patch(NODES, first.node, {"spec": {"unschedulable": False}})
    await drain(world, first.node)

    assert (await entry(world, second.node, eager=True)).manifest_hosts == (f"{first.node}:8081",)
    await entry(world, first.node, eager=False)
    sentence = f"{first.node} is leaving ({DRAINED}); {second.node} takes over"

    def takes_over(one: Dataset) -> bool:
        # Before the operator has seen that the second node can, it says that none can.
        moving = find(one.status.conditions, ConditionType.MOVING)
        return moving is not None and sentence in moving.message

    moving = find((await world.until_dataset(takes_over)).status.conditions, ConditionType.MOVING)
    assert moving is not None
    assert (moving.status, moving.reason) == ("True", Reason.NODE_LEAVING)

    second.share = 1.0
    await second.report()
    await world.until_dataset(
        lambda one: (
            (found := find(one.status.conditions, ConditionType.MOVING)) is not None
            and found.reason == Reason.HANDED_OVER
        )
    )
    raw = await world.kube.get(NODE_CACHES, first.node)
    assert NodeCache.model_validate(raw).spec.leaving == DRAINED
    await world.until_events(Reason.NODE_LEAVING, Reason.HANDED_OVER)


async def test_a_node_that_stays_after_all_is_no_longer_said_to_leave(world: World) -> None:
    first, second = await world.add_node(), await world.add_node()
    first.share = second.share = 1.0
    await world.add_dataset(cache={"replicas": 2})
    await world.until_dataset(lambda one: one.status.phase is Phase.READY)
    await drain(world, first.node)
    await world.until_dataset(lambda one: find(one.status.conditions, ConditionType.MOVING) is not None)
    await world.kube.patch(NODES, first.node, {"spec": {"unschedulable": False}})
    await world.until_dataset(
        lambda one: find(one.status.conditions, ConditionType.MOVING) is None and one.status.phase is Phase.READY
    )
    await world.until(NODE_CACHES, first.node, lambda raw: not NodeCache.model_validate(raw).spec.leaving)
