"""Reads of a pod fail on a node: a real API server accepts the condition and the pod's event, and it clears again."""

from typing import Any

import pytest

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset_status import FailingReads
from stoker_kube.resources import EVENTS, PODS
from stoker_operator.core.views.conditions import find
from tests.fakes.sidecar import VERSION, FakeSidecar
from tests.integration.stoker_operator.conftest import SECONDS, World
from tests.support.waiting import eventually_async

WHY = "s3://bucket/a.jpg refused the credentials (SignatureDoesNotMatch)"
READS = FailingReads(
    reason=Reason.INVALID_CREDENTIALS, path="a.jpg", message=WHY, since="2026-11-29T15:04:05Z", version=VERSION
)


async def add_reader(world: World, sidecar: FakeSidecar) -> None:
    """Put a pod with a mount on the node that has the Dataset."""
    csi = {"driver": names.CSI_DRIVER, "volumeAttributes": {names.CSI_ATTRIBUTE_DATASET: "digits"}}
    spec = {"nodeName": sidecar.node, "containers": [{"name": "main", "image": "none"}]}
    spec |= {"volumes": [{"name": "data", "csi": csi}]}
    pod = await world.kube.create(PODS, {"metadata": {"name": "reader", "namespace": world.namespace}, "spec": spec})
    sidecar.mount(f"{world.namespace}/digits", "reader")
    sidecar.mounts["reader"] = sidecar.mounts["reader"].model_copy(update={"pod_uid": pod["metadata"]["uid"]})


def degraded(dataset: Dataset) -> tuple[str, str, str]:
    found = find(dataset.status.conditions, ConditionType.DEGRADED)
    return (found.status, found.reason, found.message) if found is not None else ("", "", "")


@pytest.mark.parametrize("policy", ["Manual", "OnDemand"])
async def test_reads_that_fail_degrade_the_dataset_and_are_an_event_of_the_pod(world: World, policy: str) -> None:
    async def event() -> dict[str, Any] | None:
        found = (await world.kube.list(EVENTS, world.namespace)).items
        return next((one for one in found if one["involvedObject"]["kind"] == "Pod"), None)

    sidecar = await world.add_node()
    await world.add_dataset(warm={"policy": policy})
    await world.until_dataset(lambda d: d.status.version == VERSION)
    await add_reader(world, sidecar)
    sidecar.failing_reads = READS
    await sidecar.report()
    dataset = await world.until_dataset(lambda dataset: "reads of pods fail" in degraded(dataset)[2])
    assert degraded(dataset)[:2] == ("True", Reason.INVALID_CREDENTIALS)
    told = await eventually_async(event, SECONDS)
    assert (told["type"], told["reason"], told["involvedObject"]["name"]) == (
        "Warning",
        Reason.INVALID_CREDENTIALS,
        "reader",
    )
    assert told["message"].startswith(f"its reads of {world.namespace}/digits on {sidecar.node} fail since 2026-11-29")

    sidecar.failing_reads = None
    await sidecar.report()
    await world.until_dataset(lambda dataset: degraded(dataset)[:2] == ("False", Reason.HEALTHY))
