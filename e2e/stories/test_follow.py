"""Under Follow a changed source becomes a new version: only the difference is fetched, and no pod sees a mix."""

import json

from e2e.cluster.images import BUSYBOX_IMAGE
from e2e.stories.test_training_job import training_job, workers
from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import SYSTEM, Home, World, warm_rows

AGAIN = "until [ -e /tmp/again ]; do sleep 0.2; done"
SUM = manifests.SUM_EVERYTHING.format(path="/data")
TWICE = f"{SUM}; echo --; {AGAIN}; {SUM}"


def test_a_new_version_reaches_new_pods_and_a_running_pod_and_a_suspended_job_keep_their_own(
    world: World, home: Home
) -> None:
    bucket = home.bucket()
    bucket.put(files(30, 50_000))
    before = bucket.sums()
    home.dataset("moving", bucket, refresh={"policy": "Follow", "interval": "10s"})
    first = home.ready("moving")["status"]["version"]
    world.apply(manifests.pod(home.namespace, "old", "moving:/data", TWICE), long_job(home))
    world.wait("pod", "old", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
    running(world, home)
    suspend(world, home, wanted=True)
    world.wait("trainingjob", "long", home.namespace, lambda _: not workers(world, home, "long"))

    bucket.put({"0/00000.bin": b"changed" * 1000, "new/file.bin": b"new" * 1000})
    bucket.delete(["1/00001.bin"])
    renewed = home.until("moving", lambda it: it["status"]["version"] != first and is_ready(it))
    assert renewed["status"]["files"] == 30
    (node,) = warm_rows(renewed)
    (held,) = [row for row in world.get("nodecache", node)["status"]["datasets"] if row["namespace"] == home.namespace]
    assert held["fetchedFiles"] == 2
    assert first in held["retained"]
    world.apply(manifests.reading_pod(home.namespace, "new", "moving"))
    assert home.read_sums("new") == bucket.sums()
    reads_again(world, home, "old", before)

    # Another node finds the next version, and then warms the data as well. It cannot have the first version, because
    # its source has another one.
    bucket.put({"0/00001.bin": b"changed" * 1000})
    home.until("moving", lambda it: it["status"]["listingNode"] != node or end_sidecar(world, node))
    home.until(
        "moving", lambda it: it["status"]["version"] not in (first, renewed["status"]["version"], "") and is_ready(it)
    )
    suspend(world, home, wanted=False)
    reads_again(world, home, running(world, home), before)


def reads_again(world: World, home: Home, pod: str, expected: dict[str, str]) -> None:
    """Let a pod end. Check everything that it has read."""
    world.kubectl("exec", pod, "-n", home.namespace, "--", "touch", "/tmp/again")
    world.finished(pod, home.namespace)
    reads = [manifests.sums(read) for read in world.logs(pod, home.namespace).split("--\n")]
    assert reads == [expected] * len(reads)


def long_job(home: Home) -> manifests.Object:
    """Make a job with one worker that reads everything, and waits."""
    container = {"image": BUSYBOX_IMAGE, "command": ["sh", "-c", f"{SUM}; {AGAIN}"]}
    job = training_job(home.namespace, "long", container, datasets=[{"name": "moving", "mountPath": "/data"}])
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1  # it ends only by its signal
    return job


def end_sidecar(world: World, node: str) -> bool:
    """Stop a node's sidecar, which restarts. Returns False."""
    for pod in world.system_pods("sidecar"):
        if pod["spec"]["nodeName"] == node:
            name = pod["metadata"]["name"]
            world.kubectl("delete", "pod", name, "-n", SYSTEM, "--grace-period=1", "--wait", "--ignore-not-found")
    return False


def is_ready(dataset: manifests.Object) -> bool:
    return bool(dataset["status"]["phase"] == "Ready")


def running(world: World, home: Home) -> str:
    """Wait for the job's worker. Return its pod's name."""
    world.wait("trainingjob", "long", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
    (pod,) = workers(world, home, "long")
    name = str(pod["metadata"]["name"])
    world.wait("pod", name, home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
    return name


def suspend(world: World, home: Home, *, wanted: bool) -> None:
    patch = json.dumps({"spec": {"suspend": wanted}})
    world.kubectl("patch", "tj", "long", "-n", home.namespace, "--type=merge", "-p", patch)
