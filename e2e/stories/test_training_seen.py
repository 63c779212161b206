"""The activity of a pod without reports is inferred from its reads, and users see it."""

from e2e.stories.test_training_job import training_job, workers
from e2e.support.bucket import files
from e2e.support.built import IMAGE
from e2e.support.manifests import Object
from e2e.support.world import Home, World

# Reads all files in a new order in each epoch of four seconds, until it is stopped.
_LOOP = """
import pathlib, random, time
files = [path for path in pathlib.Path("/data").rglob("*") if path.is_file()]
while True:
    random.shuffle(files)
    for path in files:
        path.read_bytes()
        time.sleep(0.02)
"""


def test_a_pod_that_reads_again_and_again_in_shuffled_order_is_seen_to_train(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(200, 1000))
    home.dataset("train", bucket)
    home.ready("train")
    user = {"runAsUser": 12345, "runAsGroup": 12345, "allowPrivilegeEscalation": False}
    container = {"image": IMAGE, "command": ["python3", "-c", _LOOP], "securityContext": user}
    world.apply(training_job(home.namespace, "run", container))

    seen = world.wait("trainingjob", "run", home.namespace, in_training)["status"]["training"]
    assert seen["phaseSource"] == "fanotify"
    titles, row = world.kubectl("get", "tj", "run", "-n", home.namespace).splitlines()
    assert {"TRAINING", "EPOCH"} <= set(titles.split())
    assert "Training" in row.split()

    (worker,) = workers(world, home, "run")
    pod = f"{home.namespace}/{worker['metadata']['name']}"
    said = workload(world, worker["spec"]["nodeName"], pod)
    assert (said["phase"], said["source"], said["datasets"]) == ("Training", "fanotify", [f"{home.namespace}/train"])
    titles, row = world.stoker("top", "--once", "-n", home.namespace).splitlines()
    assert titles.split()[:4] == ["POD", "NODE", "PHASE", "EPOCH"]
    assert row.split()[:3] == [pod, worker["spec"]["nodeName"], "Training"]
    assert_a_tenant_sees_it(world, home.namespace, worker)
    explained = world.stoker("tuning", "explain", worker["metadata"]["name"], "-n", home.namespace)
    assert f"{pod} on {worker['spec']['nodeName']}: phase Training" in explained
    assert f"Datasets: {home.namespace}/train. By the built-in rules:" in explained


def assert_a_tenant_sees_it(world: World, namespace: str, worker: Object) -> None:
    """Read the figures as a user with Kubernetes' own role edit in the namespace."""
    world.kubectl("create", "rolebinding", "dev", "--clusterrole=edit", "--user=dev", "-n", namespace)
    titles, row = world.kubectl("get", "podfigures", "-n", namespace, "--as=dev").splitlines()
    assert titles.split() == ["NAME", "NODE", "PHASE", "EPOCH", "ITEMS/S", "STALL", "AGE"]
    assert row.split()[:3] == [worker["metadata"]["name"], worker["spec"]["nodeName"], "Training"]
    figures = world.get("podfigures", worker["metadata"]["name"], namespace)
    assert (figures.get("message", ""), figures["ageSeconds"] <= 2.0) == ("", True)


def in_training(job: Object) -> bool:
    training = job.get("status", {}).get("training", {})
    return training.get("phase") == "Training" and training.get("epoch", "") not in ("", "0")


def workload(world: World, node: str, pod: str) -> Object:
    rows = world.get("nodecache", node)["status"].get("workloads", [])
    return next(row for row in rows if row["pod"] == pod)
