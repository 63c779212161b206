"""A TrainingJob's workers start together on warm nodes, find each other, and end Succeeded."""

import json

from e2e.cluster.images import BUSYBOX_IMAGE
from e2e.support.bucket import files
from e2e.support.manifests import Object
from e2e.support.world import Home, World, condition, warm_rows
from stoker_kube.resources import PODS

# The workers meet at the address and port that the operator gives them.
MEET = (
    "ls /data/0 && if [ $RANK = 0 ]; then echo 0 of $WORLD_SIZE | nc -l -p $MASTER_PORT; "
    "else until nc $MASTER_ADDR $MASTER_PORT < /dev/null | grep '0 of 2'; do sleep 0.2; done; fi"
)


def training_job(namespace: str, name: str, container: Object, **spec: object) -> Object:
    template = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "imagePullPolicy": "Never"} | container]}
    }
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": template, "datasets": [{"name": "train", "mountPath": "/data"}]} | spec,
    }


def workers(world: World, home: Home, job: str) -> list[Object]:
    return world.objects.items(PODS, home.namespace, labelSelector=f"stoker.dev/training-job={job}")


def test_two_workers_on_warm_nodes_meet_over_the_pods_network_and_end_succeeded(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(40, 300_000))
    home.dataset("train", bucket, cache={"replicas": "all"}, warm={"bandwidthLimit": "4Mi"})
    container = {"image": BUSYBOX_IMAGE, "command": ["sh", "-c", MEET]}
    job = training_job(home.namespace, "job", container, workers=2, framework="pytorch", scheduling={"mode": "Require"})
    world.apply(job)

    waiting = world.wait("trainingjob", "job", home.namespace, lambda it: it.get("status", {}).get("phase"))
    assert waiting["status"]["phase"] in ("Pending", "WaitingForData")
    ended = world.wait("trainingjob", "job", home.namespace, lambda it: it["status"].get("phase") == "Succeeded")
    assert condition(ended, "Complete") == "True"
    assert condition(ended, "DataReady") == "True"
    assert {node["warmPercent"] for node in ended["status"]["nodes"]} == {100}
    assert_reported(world, home)
    warm = warm_rows(world.get("dataset", "train", home.namespace))
    pods = workers(world, home, "job")
    assert len(pods) == 2
    assert {pod["spec"]["nodeName"] for pod in pods} <= warm.keys()
    assert "Succeeded" in world.kubectl("get", "tj", "job", "-n", home.namespace)


def assert_reported(world: World, home: Home) -> None:
    """Check the figures of a job that has just ended: both workers, by their nodes, from warm data only."""
    whole = 2 * 40 * 300_000  # bytes; each worker mounted all files
    it = world.wait("trainingjob", "job", home.namespace, lambda it: it["status"].get("goodput", {}).get("complete"))
    known = it["status"]["goodput"]
    assert (known["pods"], known["missed"], known["dataBytes"], known["warmBytes"]) == (2, 0, whole, whole)
    assert (known["originBytes"], known["peerBytes"]) == (0, 0)
    world.wait_event("job", home.namespace, "100 % warm at start")
    told = json.loads(world.stoker("report", "job", "-n", home.namespace, "-o", "json"))
    assert told["goodput"]["heldSeconds"] > 0
    assert (told["goodput"]["warmShare"], told["goodput"]["gpuHours"]) == (1.0, None)
    assert "100 % (22.9 MiB of 22.9 MiB)" in world.stoker("report", "job", "-n", home.namespace)
    nodes = json.loads(world.stoker("status", "--nodes", "train", "-n", home.namespace, "-o", "json"))
    assert all(one["answered"] for one in nodes), nodes
    assert {row["phase"] for one in nodes for row in one["status"]["datasets"]} == {"Warm"}


def test_a_job_that_fails_too_often_says_so_and_a_finished_one_is_deleted_in_time(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(3, 1000))
    home.dataset("train", bucket)
    failing = {"image": BUSYBOX_IMAGE, "command": ["false"]}
    world.apply(training_job(home.namespace, "bad", failing, backoffLimit=0))
    failed = world.wait("trainingjob", "bad", home.namespace, lambda it: it.get("status", {}).get("phase") == "Failed")
    assert condition(failed, "Failed", "reason") == "BackoffLimitExceeded"
    good = {"image": BUSYBOX_IMAGE, "command": ["true"]}
    world.apply(training_job(home.namespace, "short", good, ttlSecondsAfterFinished=1))
    world.wait("trainingjob", "short", home.namespace, lambda it: not it)
