"""Kueue starts jobs when their data is warm, and holds no quota before. Gangs of other kinds start together."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from e2e.cluster import CommandFailedError
from e2e.cluster.images import BUSYBOX_IMAGE
from e2e.cluster.processes import wait_for
from e2e.support.bucket import files
from e2e.support.manifests import Object
from e2e.support.world import PATIENCE, PATIENTLY, SYSTEM, Home, World, condition, node_rows

QUEUE = {"kueue.x-k8s.io/queue-name": "queue"}
CHECK = "data-warm"
WORKLOADS = "workloads.kueue.x-k8s.io"
TIME = "2026-11-23T16:00:00Z"
CPU = "500m"  # of one job: the whole queue


@pytest.fixture(scope="module", autouse=True)
def kueue(world: World) -> Iterator[None]:
    """Run Kueue and JobSet for these stories, with one queue whose quota is enough for one job."""
    queueing = world.cluster.queueing
    queueing.start()
    flavors = [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": CPU}]}]
    world.apply(
        kueue_object("ResourceFlavor", "any", {}),
        kueue_object("AdmissionCheck", CHECK, {"controllerName": "stoker.dev/data-warm"}),
        kueue_object(
            "ClusterQueue",
            "one-job",
            {
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
                "admissionChecks": [CHECK],
            },
        ),
    )
    world.wait("clusterqueue", "one-job", "", lambda it: condition(it, "Active") == "True")
    yield
    world.removals.finish()
    # They have Kueue's finalizers, and would keep their namespace.
    wait_for("Kueue to let go of Workloads", lambda: not world.items(WORKLOADS, "-A"), PATIENCE)
    queueing.stop()


def kueue_object(kind: str, name: str, spec: Object, **metadata: str) -> Object:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def template(command: str, cpu: str, **annotations: str) -> Object:
    notes = {f"stoker.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
        "resources": {"requests": {"cpu": cpu}},
    }
    return {
        "metadata": {"annotations": notes},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]},
    }


def job(home: Home, name: str, pods: Object, *, labels: dict[str, str], **spec: object) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": home.namespace, "labels": labels},
        "spec": {"template": pods, "backoffLimit": 0} | spec,
    }


def workload(world: World, home: Home, owner: str) -> Object:
    """Return the Workload that Kueue made for a job, or empty."""
    found = world.items(WORKLOADS, "-n", home.namespace)
    return next((one for one in found if one["metadata"]["ownerReferences"][0]["name"] == owner), {})


def check(item: Object) -> Object:
    rows = item.get("status", {}).get("admissionChecks", [])
    return next((row for row in rows if row["name"] == CHECK), {})


def pods_of(world: World, home: Home, label: str) -> list[Object]:
    return world.items("pods", "-n", home.namespace, "-l", label)


def warm_nodes(world: World, home: Home, name: str) -> set[str]:
    rows = node_rows(world.get("dataset", name, home.namespace))
    return {node for node, row in rows.items() if row["phase"] == "Warm"}


def pause(world: World, home: Home, name: str, *, paused: bool) -> None:
    patch = json.dumps({"spec": {"warm": {"paused": paused}}})
    world.kubectl("patch", "dataset", name, "-n", home.namespace, "--type=merge", "-p", patch)


def test_a_job_waits_without_quota_until_its_data_is_warm_and_starts_there(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(20, 100_000))
    home.dataset("train", bucket, warm={"paused": True}, scheduling={"mode": "Require"})
    home.until("train", lambda it: it.get("status", {}).get("files") == 20)
    world.apply(kueue_object("LocalQueue", "queue", {"clusterQueue": "one-job"}, namespace=home.namespace))
    world.apply(job(home, "cold", template("ls /data/0", CPU, datasets="train:/data"), labels=QUEUE, suspend=True))

    name = workload_name(world, home, "cold")
    waiting = world.wait(WORKLOADS, name, home.namespace, without_quota)
    message = check(waiting)["message"]
    assert "0 of 1 nodes that its pods need are warm; 1.9 MiB left" in message, message
    assert pods_of(world, home, "job-name=cold") == []

    # The whole quota goes to another job, which runs to its end.
    world.apply(job(home, "other", template("true", CPU), labels=QUEUE, suspend=True))
    world.kubectl("wait", "--for=condition=Complete", "job/other", "-n", home.namespace, PATIENTLY)
    assert without_quota(world.get(WORKLOADS, name, home.namespace))

    pause(world, home, "train", paused=False)
    world.kubectl("wait", "--for=condition=Complete", "job/cold", "-n", home.namespace, PATIENTLY)
    admitted = world.get(WORKLOADS, name, home.namespace)
    assert condition(admitted, "Admitted") == "True"
    assert "warm: " in check(admitted)["message"]
    (pod,) = pods_of(world, home, "job-name=cold")
    assert pod["spec"]["nodeName"] in warm_nodes(world, home, "train")
    # The wait for data is a part of the pod's maxWait.
    since, until = pod["metadata"]["annotations"]["stoker.dev/waited"].split("/")
    assert admitted["metadata"]["creationTimestamp"] <= since < until
    (evicted,) = admitted["status"]["schedulingStats"]["evictions"]
    assert (evicted["reason"], evicted["count"]) == ("AdmissionCheck", 1)


def without_quota(item: Object) -> bool:
    """Return True if Stoker has answered, and Kueue has taken the quota back."""
    return "nodes that its pods need" in check(item).get("message", "") and (
        condition(item, "QuotaReserved") == "False" and "admission" not in item["status"]
    )


def workload_name(world: World, home: Home, owner: str) -> str:
    world.wait("job", owner, home.namespace, lambda it: it and workload(world, home, owner))
    return str(workload(world, home, owner)["metadata"]["name"])


def test_the_operator_may_let_no_workload_in_by_itself(world: World, home: Home) -> None:
    pods = {"name": "main", "count": 1, "template": template("true", CPU)}
    mine = kueue_object("Workload", "mine", {"podSets": [pods]}, namespace=home.namespace)
    world.apply(mine)
    admitted = {"type": "Admitted", "status": "True", "reason": "Stolen", "message": "", "lastTransitionTime": TIME}
    stolen = json.dumps(mine | {"status": {"conditions": [admitted]}})
    # By an apply, as in the operator: kubectl patch reads the object first, which the operator may not do.
    words = ("apply", "--server-side", "--subresource=status", "--validate=false", "-f", "-")
    with pytest.raises(CommandFailedError, match="Stoker's operator may write only what checks say"):
        world.kubectl(f"--as=system:serviceaccount:{SYSTEM}:stoker-operator", *words, stdin=stolen)


def test_pods_that_mount_a_claim_get_the_gate_from_the_check(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(20, 100_000))
    home.dataset("train", bucket, scheduling={"mode": "Require"})
    world.apply(kueue_object("LocalQueue", "queue", {"clusterQueue": "one-job"}, namespace=home.namespace))
    pods = template("ls /data/0", CPU)
    pods["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "train", "readOnly": True}}]
    pods["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data", "readOnly": True}]
    world.apply(job(home, "claim", pods, labels=QUEUE, suspend=True))
    world.kubectl("wait", "--for=condition=Complete", "job/claim", "-n", home.namespace, PATIENTLY)
    (pod,) = pods_of(world, home, "job-name=claim")
    notes = pod["metadata"]["annotations"]
    assert notes["stoker.dev/datasets"] == f"{home.namespace}/train"
    assert json.loads(notes["stoker.dev/released"])["reason"] == "Released"
    assert pod["spec"]["nodeName"] in warm_nodes(world, home, "train")


def test_a_job_set_in_a_queue_has_its_data_brought_and_its_gang_released_together(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(20, 100_000))
    # Data is not warmed in advance: the waiting set in the queue causes the warm-up.
    home.dataset("train", bucket, cache={"replicas": 0}, warm={"policy": "OnDemand"}, scheduling={"mode": "Require"})
    world.apply(kueue_object("LocalQueue", "queue", {"clusterQueue": "one-job"}, namespace=home.namespace))
    pods = template("ls /data/0 && sleep 1", "200m", datasets="train:/data", gang_size="2")
    pods["metadata"]["labels"] = {"stoker.dev/gang": "set"}
    replicated = {
        "name": "node",
        "replicas": 1,
        "template": {"spec": {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": pods}},
    }
    world.apply(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "set", "namespace": home.namespace, "labels": QUEUE},
            "spec": {"replicatedJobs": [replicated]},
        }
    )
    world.wait("jobset", "set", home.namespace, lambda it: condition(it, "Completed") == "True")
    made = pods_of(world, home, "jobset.sigs.k8s.io/jobset-name=set")
    released_together(world, home, made)


def test_a_gang_of_a_plain_job_is_released_together_on_warm_nodes(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(20, 100_000))
    home.dataset("train", bucket, warm={"paused": True}, scheduling={"mode": "Require"})
    pods = template("ls /data/0 && sleep 1", "100m", datasets="train:/data", gang_size="2")
    pods["metadata"]["labels"] = {"stoker.dev/gang": "plain"}
    world.apply(job(home, "plain", pods, labels={}, parallelism=2, completions=2, completionMode="Indexed"))
    world.wait("job", "plain", home.namespace, lambda it: it and len(held(world, home)) == 2)
    pause(world, home, "train", paused=False)
    world.kubectl("wait", "--for=condition=Complete", "job/plain", "-n", home.namespace, PATIENTLY)
    released_together(world, home, pods_of(world, home, "job-name=plain"))


def held(world: World, home: Home) -> list[Object]:
    return [pod for pod in pods_of(world, home, "job-name=plain") if pod["spec"].get("schedulingGates")]


def released_together(world: World, home: Home, pods: list[Object]) -> None:
    """Check two pods of a gang: both released to warm nodes at one time."""
    records = [json.loads(pod["metadata"]["annotations"]["stoker.dev/released"]) for pod in pods]
    assert len(records) == 2
    assert {pod["spec"]["nodeName"] for pod in pods} <= warm_nodes(world, home, "train")
    assert {record["reason"] for record in records} == {"Released"}
    assert {node["warmBytes"] for record in records for node in record["nodes"]} == {2_000_000}
    times = [datetime.fromisoformat(record["releasedAt"]) for record in records]
    assert max(times) - min(times) <= timedelta(seconds=2)
