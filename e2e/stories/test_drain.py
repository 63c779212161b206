"""A node is drained with kubectl: what it holds is on the other node before it goes, and it keeps its own copy."""

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.manifests import Object
from e2e.support.world import Home, World, node_rows, warm_rows

APP = "drained-worker"


def moving(dataset: Object) -> str:
    """Return the reason of the condition Moving; empty where there is none."""
    conditions = dataset.get("status", {}).get("conditions", [])
    return next((str(one["reason"]) for one in conditions if one["type"] == "Moving"), "")


def worker(home: Home, node: str) -> Object:
    """Make a pod without data on a node."""
    made = manifests.pod(home.namespace, "worker", "", "sleep 3600")
    made["metadata"]["labels"] = {"app": APP}
    made["spec"]["nodeName"] = node
    return made


def test_a_drained_node_hands_its_data_over_first(world: World, home: Home) -> None:
    world.removals.finish()
    bucket = home.bucket()
    bucket.put(files(20, 10_000))
    home.dataset("train", bucket, cache={"replicas": 1})
    (holder,) = warm_rows(home.ready("train"))
    (other,) = (node for node in world.cluster.nodes if node != holder)
    home.apply_pod(worker(home, holder))
    world.wait("pod", "worker", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
    try:
        world.kubectl("cordon", holder)
        # Of all pods on the node only this one, lest other stories' homes be disturbed.
        world.kubectl("drain", holder, f"--pod-selector=app={APP}", "--force", "--ignore-daemonsets", "--timeout=60s")
        moved = home.until("train", lambda it: moving(it) == "HandedOver")
        rows = node_rows(moved)
        assert (rows[other]["phase"], moved["status"]["warmNodes"]) == ("Warm", "1/1")
        assert holder in rows, "the node that leaves is a source until it is gone"
        world.wait_event("train", home.namespace, "NodeLeaving")
    finally:
        world.kubectl("uncordon", holder)
    home.until("train", lambda it: not moving(it))
