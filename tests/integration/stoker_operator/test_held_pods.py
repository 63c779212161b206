"""Gated pods with a leading operator on a real API server, which checks all their patches."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from stoker_api import names
from stoker_api.datasets.release import ReleaseRecord
from stoker_cli.access.cluster import Cluster
from stoker_cli.pods.release_pods import release
from stoker_kube.api import JSON
from stoker_kube.resources import DATASETS, NODE_CACHES, PODS
from tests.fakes.sidecar import VERSION
from tests.integration.stoker_operator.conftest import V2, World, is_released

WITHOUT_FIRST_GATE = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
QUEUE = "example.com/queue"  # another controller's gate
OWN_TERMS = [{"matchExpressions": [{"key": "test", "operator": "Exists"}]}]


async def add_held_pod(world: World, affinity: Any = None, **annotations: str) -> None:
    """Create a pod as the webhook returns it."""
    await add_pod(world, (names.GATE_WARM,), affinity, **annotations)


async def add_pod(
    world: World,
    gates: Sequence[str],
    affinity: Any = None,
    name: str = "pod",
    cpu: str = "1",
    version: str = "",
    **annotations: str,
) -> None:
    """Create a managed pod with some gates. With a version, it also has the volume of that version."""
    metadata = {
        "name": name,
        "namespace": world.namespace,
        "labels": {names.LABEL_MANAGED: "true"},
        "annotations": {names.ANNOTATION_DATASETS: "digits"} | annotations,
    }
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    spec: dict[str, Any] = {"containers": [container], "schedulingGates": [{"name": gate} for gate in gates]}
    spec |= {"nodeSelector": {"test": world.label}} | ({"affinity": affinity} if affinity else {})
    if version:
        csi = {"driver": names.CSI_DRIVER, "volumeAttributes": {"dataset": "digits", "version": version}}
        spec["volumes"] = [{"name": "data", "csi": csi}]
    await world.kube.create(PODS, {"metadata": metadata, "spec": spec})


def says_why(pod: dict[str, Any]) -> bool:
    return "no node that can run it is warm yet" in pod["metadata"]["annotations"].get(names.ANNOTATION_WAITING, "")


def names_the_queue(pod: dict[str, Any]) -> bool:
    return QUEUE in pod["metadata"]["annotations"].get(names.ANNOTATION_WAITING, "")


@pytest.mark.parametrize("affinity", [None, "own terms"])
async def test_a_pod_is_held_with_a_reason_and_goes_to_the_node_that_got_warm(world: World, affinity: Any) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": OWN_TERMS}}
    sidecar = await world.add_roomy_node()
    sidecar.share = 0.25
    await world.add_dataset(scheduling={"mode": "Require"})
    await add_held_pod(world, {"nodeAffinity": required} if affinity else None)
    await world.until(PODS, "pod", says_why)

    sidecar.share = 1.0
    await sidecar.report()
    pod = await world.until(PODS, "pod", is_released)
    record = ReleaseRecord.model_validate_json(pod["metadata"]["annotations"][names.ANNOTATION_RELEASED])
    assert [one.name for one in record.nodes] == [sidecar.node]
    assert names.ANNOTATION_WAITING not in pod["metadata"]["annotations"]
    assert sidecar.node in str(pod["spec"]["affinity"])


async def test_a_cold_dataset_of_no_replicas_is_warmed_where_the_held_pod_may_run(world: World) -> None:
    sidecar = await world.add_roomy_node()
    sidecar.share = 1.0
    await world.add_dataset(cache={"replicas": 0, "nodeSelector": {"test": world.label}}, warm={"policy": "OnDemand"})
    await add_held_pod(world)
    pod = await world.until(PODS, "pod", is_released)
    assert sidecar.node in str(pod["spec"]["affinity"])


async def test_one_warm_node_is_nominated_and_preferred_and_not_required(world: World) -> None:
    sidecar = await world.add_roomy_node()
    sidecar.share = 1.0
    await world.add_dataset()
    await add_held_pod(world)
    pod = await world.until(PODS, "pod", is_released)
    assert pod["status"]["nominatedNodeName"] == sidecar.node
    affinity = pod["spec"]["affinity"]["nodeAffinity"]
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in affinity
    assert sidecar.node in str(affinity["preferredDuringSchedulingIgnoredDuringExecution"])


async def test_a_pod_that_says_that_it_was_released_takes_no_room_from_others(world: World) -> None:
    sidecar = await world.add_roomy_node()
    sidecar.share = 1.0
    await world.add_dataset(scheduling={"mode": "Require"})
    record = {"reason": "Released", "message": "", "heldSince": "", "releasedAt": "", "mode": "Require"}
    nodes = {"nodes": [{"name": sidecar.node, "warmBytes": 1, "totalBytes": 1}]}
    forged = {names.ANNOTATION_RELEASED: json.dumps(record | nodes)}
    await add_pod(world, ("example.com/never",), name="forged", cpu="4", **forged)
    await add_held_pod(world)
    assert sidecar.node in str((await world.until(PODS, "pod", is_released))["spec"]["affinity"])


async def test_a_pod_that_another_controller_holds_is_let_go_after_it(world: World) -> None:
    sidecar = await world.add_roomy_node()
    sidecar.share = 1.0
    await world.add_dataset()
    await add_pod(world, (QUEUE, names.GATE_WARM))
    # The first reason may be the missing Dataset: the operator watches Datasets and pods separately.
    waiting = await world.until(PODS, "pod", names_the_queue)
    assert waiting["metadata"]["annotations"][names.ANNOTATION_HELD_SINCE] == ""
    await world.kube.patch(PODS, "pod", WITHOUT_FIRST_GATE, world.namespace, content_type=JSON)
    pod = await world.until(PODS, "pod", is_released)
    assert sidecar.node in str(pod["spec"]["affinity"])


async def test_max_wait_lets_a_pod_go_cold(world: World) -> None:
    await world.add_roomy_node()
    await world.add_dataset()
    await add_held_pod(world, **{names.ANNOTATION_MAX_WAIT: "1s"})
    pod = await world.until(PODS, "pod", is_released)
    record = ReleaseRecord.model_validate_json(pod["metadata"]["annotations"][names.ANNOTATION_RELEASED])
    assert record.reason == "MaxWaitPassed"


def record_of(pod: dict[str, Any]) -> ReleaseRecord:
    return ReleaseRecord.model_validate_json(pod["metadata"]["annotations"][names.ANNOTATION_RELEASED])


async def test_a_pod_of_a_manual_dataset_goes_at_once_and_waits_once_it_is_warmed(world: World) -> None:
    sidecar = await world.add_roomy_node()
    sidecar.share = 0.25
    await world.add_dataset(warm={"policy": "Manual"}, scheduling={"maxWait": "1h"})
    await world.until_dataset(lambda d: d.status.version == VERSION)
    await add_held_pod(world)
    assert record_of(await world.until(PODS, "pod", is_released)).reason == "Manual"
    change = {"metadata": {"annotations": {names.ANNOTATION_WARM_REQUESTED: "2026-11-21T10:00:00Z"}}}
    await world.kube.patch(DATASETS, "digits", change, world.namespace)
    # The operator watches Datasets and pods separately. A pod that it sees before the request goes at once.
    await world.until(NODE_CACHES, sidecar.node, lambda raw: bool(raw["spec"]["datasets"][0].get("eager")))
    await add_pod(world, (names.GATE_WARM,), name="second")
    await world.until(PODS, "second", says_why)


async def test_a_pod_that_requires_a_manual_dataset_is_let_go_by_stoker_release(world: World) -> None:
    await world.add_roomy_node()
    await world.add_dataset(warm={"policy": "Manual"}, scheduling={"mode": "Require"})
    await world.until_dataset(lambda d: d.status.version == VERSION)
    await add_held_pod(world)
    command = f"nothing is fetched until `stoker -n {world.namespace} warm digits`"
    await world.until(
        PODS, "pod", lambda raw: command in raw["metadata"]["annotations"].get(names.ANNOTATION_WAITING, "")
    )
    cluster = Cluster(world.kube, world.namespace)
    assert (await release(cluster, "pod")).startswith("Released pod.")
    assert record_of(await world.until(PODS, "pod", is_released)).mode == "None"
    assert "nothing to release" in await release(cluster, "pod")


async def test_a_pod_of_an_older_version_goes_where_that_is_warm(world: World) -> None:
    sidecar = await world.add_roomy_node()
    sidecar.share = 1.0
    await world.add_dataset()
    await world.until_dataset(lambda d: d.status.version == VERSION)
    await add_pod(world, (QUEUE, names.GATE_WARM), version=VERSION)
    await world.until(PODS, "pod", names_the_queue)  # nodes keep no older version for a pod unknown to the operator
    await world.refresh(sidecar, V2)
    # Until the operator knows that, the node counts as warm for the older version, and the pod is released at once.
    await world.until_dataset(lambda d: [node.version for node in d.status.nodes] == [V2])
    await world.kube.patch(PODS, "pod", WITHOUT_FIRST_GATE, world.namespace, content_type=JSON)

    def fetches_it(raw: dict[str, Any]) -> bool:
        return [one["version"] for one in raw["spec"]["datasets"][0].get("older", ())] == [VERSION]

    await world.until(NODE_CACHES, sidecar.node, fetches_it)
    assert not is_released(await world.kube.get(PODS, "pod", world.namespace))
    sidecar.older_share = 1.0
    await sidecar.report()
    released = await world.until(PODS, "pod", is_released)
    record = ReleaseRecord.model_validate_json(released["metadata"]["annotations"][names.ANNOTATION_RELEASED])
    assert f"digits@{VERSION[:12]}" in record.message
