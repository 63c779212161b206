"""TrainingJobs with a leading operator on a real API server, which checks their Jobs, Services and statuses."""

import json
import time
from typing import Any

import pytest

from stoker_api import names
from stoker_api.goodput import EndedPod, LastReport
from stoker_api.node_caches.node_workload import EvidenceSource, NodeWorkload, StallSource
from stoker_api.times import format_time
from stoker_kube.resources import JOBS, NODE_CACHES, PODS, SERVICES, TRAINING_JOBS
from tests.fakes.sidecar import VERSION
from tests.integration.stoker_operator.conftest import V2, World, is_released


async def add_training_job(world: World, name: str = "ddp", **spec: Any) -> None:
    template = {"spec": {"containers": [{"name": "trainer", "image": "none"}]}}
    body = {"template": template, "workers": 2, "datasets": [{"name": "digits", "mountPath": "/data"}]} | spec
    await world.kube.create(TRAINING_JOBS, {"metadata": {"name": name, "namespace": world.namespace}, "spec": body})


def phase_is(phase: str) -> Any:
    return lambda raw: raw.get("status", {}).get("phase") == phase


def reason_is(kind: str, reason: str) -> Any:
    def holds(raw: dict[str, Any]) -> bool:
        conditions = raw.get("status", {}).get("conditions", [])
        return any((one["type"], one["reason"]) == (kind, reason) for one in conditions)

    return holds


async def test_workers_that_wait_are_released_when_their_job_says_none(world: World) -> None:
    await world.add_roomy_node()
    await world.add_dataset(warm={"paused": True})
    await world.until_dataset(lambda d: d.status.version == VERSION)
    await add_training_job(world, workers=1, scheduling={"mode": "Require"})
    template = (await world.until(JOBS, "ddp", lambda raw: True))["spec"]["template"]
    labels = template["metadata"]["labels"] | {names.LABEL_MANAGED: "true"}
    metadata = {"name": "ddp-0", "namespace": world.namespace, "labels": labels}
    metadata["annotations"] = template["metadata"]["annotations"]
    spec = {"schedulingGates": [{"name": names.GATE_WARM}], "containers": [{"name": "trainer", "image": "none"}]}
    await world.kube.create(PODS, {"metadata": metadata, "spec": spec})
    await world.until(
        PODS, "ddp-0", lambda raw: "is paused" in raw["metadata"]["annotations"].get(names.ANNOTATION_WAITING, "")
    )
    await world.kube.patch(TRAINING_JOBS, "ddp", {"spec": {"scheduling": {"mode": "None"}}}, world.namespace)
    await world.until(PODS, "ddp-0", is_released)


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "jax", "none"])
async def test_the_api_server_takes_service_and_job_of_each_framework(world: World, framework: str) -> None:
    await world.add_dataset()
    await add_training_job(world, framework=framework)
    job = await world.until(JOBS, "ddp", lambda raw: True)
    assert job["spec"]["template"]["spec"]["subdomain"] == "ddp"
    assert (await world.until(SERVICES, "ddp", lambda raw: True))["spec"]["clusterIP"] == "None"


async def test_a_training_job_waits_for_its_dataset_and_then_starts(world: World) -> None:
    await add_training_job(world)
    await world.until(TRAINING_JOBS, "ddp", reason_is("DataReady", "DatasetNotFound"))
    await world.add_dataset()
    await world.until(JOBS, "ddp", lambda raw: True)


async def test_what_workers_report_is_told_of_their_training_job(world: World) -> None:
    sidecar = await world.add_roomy_node()
    await world.add_dataset()
    await add_training_job(world, workers=1, scheduling={"mode": "None"})
    await world.until(JOBS, "ddp", lambda raw: True)
    uid = await add_worker(world, sidecar.node)
    report = {"phase": "Validation", "epoch": 3, "epochs": 90, "stall_percent": 4, "stall_source": "report"}
    sidecar.workloads = (NodeWorkload(pod=f"{world.namespace}/ddp-0", uid=uid, **report),)
    await sidecar.report()
    raw = await world.until(TRAINING_JOBS, "ddp", lambda raw: "training" in raw.get("status", {}))
    training = raw["status"]["training"]
    assert (training["phase"], training["epoch"], training["stall"]) == ("Validation", "3/90", "4%")
    await world.until_told("TrainingJob", "TrainingPhase")


async def test_a_node_says_nothing_of_workers_that_are_not_its_own(world: World) -> None:
    ours, other = await world.add_roomy_node(), await world.add_roomy_node()
    await world.add_dataset()
    await add_training_job(world, workers=1, scheduling={"mode": "None"})
    await world.until(JOBS, "ddp", lambda raw: True)
    uid = await add_worker(world, ours.node)
    other.workloads = (NodeWorkload(pod=f"{world.namespace}/ddp-0", uid=uid, phase="Forged"),)
    await other.report()
    ours.workloads = (NodeWorkload(pod=f"{world.namespace}/ddp-0", uid=uid, phase="Training"),)
    await ours.report()
    raw = await world.until(TRAINING_JOBS, "ddp", lambda raw: "training" in raw.get("status", {}))
    assert raw["status"]["training"]["phase"] == "Training"


def goodput_is_complete(raw: dict[str, Any]) -> bool:
    return bool((raw["status"].get("goodput") or {}).get("complete"))


async def test_the_status_of_a_job_that_ended_is_the_same_an_hour_later(world: World) -> None:
    sidecar = await world.add_roomy_node()
    sidecar.share = 1.0
    await world.add_dataset()
    await add_training_job(world, workers=1, scheduling={"mode": "None"})
    job = await world.until(JOBS, "ddp", lambda raw: True)
    uid = await add_worker(world, sidecar.node, job)
    pod = f"{world.namespace}/ddp-0"
    report = {"phase": "Training", "epoch": 3, "epochs": 4, "loss": "0.31", "stall_percent": 30}
    sidecar.workloads = (NodeWorkload(pod=pod, uid=uid, stall_source=StallSource.REPORT, **report),)
    await sidecar.report()
    await world.until(TRAINING_JOBS, "ddp", lambda raw: "training" in raw.get("status", {}))

    # The report arrives before the pod, the final figures at its end.
    seen = NodeWorkload(pod=pod, uid=uid, source=EvidenceSource.FANOTIFY, phase="Initialization", confidence=0.6)
    sidecar.workloads = (seen,)
    await sidecar.report()
    await world.kube.patch(PODS, "ddp-0", {"status": {"phase": "Succeeded"}}, world.namespace, subresource="status")
    last = LastReport(phase="Training", epoch=3, epochs=4, loss="0.21")
    times = {"mounted_at": "2026-11-21T09:59:00Z", "ended_at": "2026-11-21T10:00:00Z", "mounted_seconds": 40.0}
    told = EndedPod.model_validate(
        times | {"pod": pod, "uid": uid, "watched_seconds": 40.0, "stalled_seconds": 12.0, "last": last}
    )
    sidecar.workloads, sidecar.ended = (), (told,)
    await sidecar.report()
    await world.kube.patch(JOBS, "ddp", {"status": finished_status(1)}, world.namespace, subresource="status")
    ended = await world.until(TRAINING_JOBS, "ddp", goodput_is_complete)
    training = ended["status"]["training"]
    assert (training["phase"], training["currentEpoch"], training["loss"], training["stall"]) == (
        "Done",
        "4/4",
        "0.21",
        "30%",
    )
    assert (ended["status"]["workers"], ended["status"]["goodput"]["stalledSeconds"]) == ("1/1", 12.0)

    world.ahead = 3600.0
    sidecar.workloads = (seen, NodeWorkload(pod=pod, uid=uid, phase="Validation", loss="9.9"))
    sidecar.share, sidecar.ended = 0.0, ()
    await sidecar.report()
    await world.kube.delete(PODS, "ddp-0", world.namespace)
    await world.until_dataset(lambda dataset: dataset.status.cached_bytes == 0)
    # A full pass over all TrainingJobs after that: another one is created, and gets its own status.
    await add_training_job(world, name="later", datasets=[])
    await world.until(TRAINING_JOBS, "later", lambda raw: "phase" in raw.get("status", {}))
    later = await world.kube.get(TRAINING_JOBS, "ddp", world.namespace)
    assert json.dumps(later["status"], sort_keys=True) == json.dumps(ended["status"], sort_keys=True)
    assert later["metadata"]["resourceVersion"] == ended["metadata"]["resourceVersion"]


async def add_worker(world: World, node: str, job: dict[str, Any] | None = None) -> str:
    """Make the worker, which no Job controller makes here, on a node. Return its UID. ``job`` owns it."""
    labels = {names.LABEL_MANAGED: "true", names.LABEL_TRAINING_JOB: "ddp"}
    metadata: dict[str, Any] = {"name": "ddp-0", "namespace": world.namespace, "labels": labels}
    if job is not None:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "ddp", "uid": job["metadata"]["uid"]}
        metadata["ownerReferences"] = [owner | {"controller": True}]
    spec = {"nodeName": node, "containers": [{"name": "trainer", "image": "none"}]}
    made = await world.kube.create(PODS, {"metadata": metadata, "spec": spec})
    return str(made["metadata"]["uid"])


async def test_the_workers_of_a_job_keep_their_version_when_another_one_is_listed(world: World) -> None:
    sidecar = await world.add_roomy_node()
    sidecar.share = 1.0
    await world.add_dataset()
    await world.until_dataset(lambda d: d.status.version == VERSION)
    await add_training_job(world)
    await world.until(JOBS, "ddp", lambda raw: True)
    await world.refresh(sidecar, V2)
    await world.until_dataset(lambda d: d.status.versions_in_use == (VERSION,))
    job = await world.kube.get(JOBS, "ddp", world.namespace)
    asked = job["spec"]["template"]["metadata"]["annotations"][names.ANNOTATION_DATASETS]
    assert asked == f"{world.namespace}/digits@{VERSION}:/data"

    def keeps_it(raw: dict[str, Any]) -> bool:
        entry = raw["spec"]["datasets"][0]
        return (entry["version"], entry.get("retain")) == (V2, [VERSION])

    await world.until(NODE_CACHES, sidecar.node, keeps_it)


async def test_a_job_that_names_a_version_that_is_gone_says_so(world: World) -> None:
    await world.add_dataset()
    await add_training_job(world, datasets=[{"name": "digits", "mountPath": "/data", "version": "0" * 12}])
    await world.until(TRAINING_JOBS, "ddp", reason_is("DataReady", "VersionNotFound"))


async def test_a_template_that_the_api_server_refuses_is_told_in_its_words(world: World) -> None:
    await world.add_dataset()
    await add_training_job(world, template={"spec": {"containers": [{"name": "No Name", "image": "x"}]}})
    raw = await world.until(TRAINING_JOBS, "ddp", reason_is("Accepted", "InvalidSpec"))
    accepted = next(one for one in raw["status"]["conditions"] if one["type"] == "Accepted")
    assert "containers[0].name" in accepted["message"]


async def test_workers_can_change_while_suspended_and_only_then(world: World) -> None:
    await world.add_dataset()
    await add_training_job(world, suspend=True)
    await world.until(TRAINING_JOBS, "ddp", phase_is("Suspended"))
    await world.kube.patch(TRAINING_JOBS, "ddp", {"spec": {"workers": 3}}, world.namespace)
    await world.until(JOBS, "ddp", lambda raw: raw["spec"]["completions"] == 3)
    await world.kube.patch(TRAINING_JOBS, "ddp", {"spec": {"suspend": False}}, world.namespace)
    await world.until(JOBS, "ddp", lambda raw: raw["spec"]["suspend"] is False)


async def test_a_finished_training_job_is_deleted_when_its_time_is_over(world: World) -> None:
    await world.add_dataset()
    await add_training_job(world, ttlSecondsAfterFinished=0)
    await world.until(JOBS, "ddp", lambda raw: True)
    await world.kube.patch(JOBS, "ddp", {"status": finished_status()}, world.namespace, subresource="status")
    await world.until_gone(TRAINING_JOBS, "ddp")


def finished_status(workers: int = 2) -> dict[str, Any]:
    """Return the final status of the Job controller, which does not run here.

    It ends now: some time after the end, the operator no longer waits for the nodes' reports.
    """
    now = format_time(time.time())
    kinds = ("SuccessCriteriaMet", "Complete")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds]
    times = {"startTime": now, "completionTime": now}
    indexes = "0" if workers == 1 else f"0-{workers - 1}"
    return times | {"conditions": conditions, "succeeded": workers, "completedIndexes": indexes}
