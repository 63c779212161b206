"""A Dataset in use cannot be deleted under its pods; afterwards the node's disk is clean."""

from e2e.cluster.processes import run, wait_for
from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import PATIENCE, Home, World, condition, warm_rows

WAIT = "until [ -e /tmp/done ]; do sleep 0.2; done"


def on_disk(world: World, node: str, uid: str) -> str:
    """Return what the node's disk and mount table still know of the Dataset."""
    script = f"ls -d /var/lib/stoker/cache/datasets/{uid} 2>/dev/null; grep {uid} /proc/self/mountinfo; true"
    return run(*world.cluster.node(node).entry(), "sh", "-c", script)


def test_deletion_waits_for_the_pods_by_name_and_then_cleans_the_node(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(10, 10_000))
    home.dataset("train", bucket)
    ready = home.ready("train")
    (node,), uid = warm_rows(ready), ready["metadata"]["uid"]
    world.apply(manifests.pod(home.namespace, "user", "train:/data", WAIT))
    world.wait("pod", "user", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
    assert uid in on_disk(world, node, uid)

    world.kubectl("delete", "dset", "train", "-n", home.namespace, "--wait=false")
    held = home.until("train", lambda it: condition(it, "DeletionBlocked") == "True")
    assert condition(held, "DeletionBlocked", "reason") == "InUse"
    assert f"{home.namespace}/user" in condition(held, "DeletionBlocked", "message")
    assert world.wait_event("train", home.namespace, "InUse")
    assert world.kubectl("exec", "user", "-n", home.namespace, "--", "ls", "/data").split()

    world.kubectl("exec", "user", "-n", home.namespace, "--", "touch", "/tmp/done")
    world.finished("user", home.namespace)
    world.kubectl("delete", "pod", "user", "-n", home.namespace, "--wait")
    world.wait("dataset", "train", home.namespace, lambda it: not it)
    wait_for("the node's disk to be clean", lambda: on_disk(world, node, uid) == "", PATIENCE)
    assert world.get("pvc", "train", home.namespace) == {} or world.get("pvc", "train", home.namespace)["metadata"].get(
        "deletionTimestamp"
    )
