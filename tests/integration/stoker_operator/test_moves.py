"""Allowed nodes of replicas, and their moves when a node is drained, on a real API server."""

from typing import Any

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import Phase
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.nodecache import NodeCache
from stoker_kube.resources import NODE_CACHES, NODES, PODS
from stoker_operator.core.views.conditions import find
from stoker_operator.mirror.leaving_nodes import DRAINED
from tests.integration.stoker_operator.conftest import World


async def entry(world: World, node: str, *, eager: bool) -> NodeDataset:
    """Return a node's plan of the Dataset when it includes or excludes the fetch."""

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
    await world.kube.patch(NODES, first.node, {"spec": {"unschedulable": True}})  # a cordon alone causes no move
    await world.kube.patch(NODES, first.node, {"spec": {"unschedulable": False}})
    await drain(world, first.node)

    assert (await entry(world, second.node, eager=True)).manifest_hosts == (f"{first.ip}:8082",)
    await entry(world, first.node, eager=False)
    sentence = f"{first.node} is leaving ({DRAINED}); {second.node} takes over"

    def takes_over(one: Dataset) -> bool:
        # Until the operator has seen that the second node is suitable, it reports that none is.
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
