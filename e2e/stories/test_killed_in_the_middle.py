"""The sidecar's and the operator's pods are deleted while a Dataset warms: it goes on without starting over."""

from e2e.support.bucket import files
from e2e.support.world import SYSTEM, Home, World, condition, node_rows

COUNT, SIZE = 100, 200_000


def warm_files(item: dict[str, object]) -> int:
    return sum(row["warmFiles"] for row in node_rows(item).values())


def started(home: Home) -> str:
    """Begin a slow warming and return its node once a third is there."""
    bucket = home.bucket()
    bucket.put(files(COUNT, SIZE))
    home.dataset("long", bucket, warm={"bandwidthLimit": "2Mi"})
    (node,) = node_rows(home.until("long", lambda it: warm_files(it) > COUNT // 3))
    return str(node)


def test_a_deleted_sidecar_pod_fetches_no_finished_file_again(world: World, home: Home) -> None:
    node = started(home)
    old = world.sidecar_of(node)["metadata"]
    world.kubectl("delete", "pod", old["name"], "-n", SYSTEM, "--grace-period=5", "--wait")
    finished = world.get("dataset", "long", home.namespace)
    before = warm_files(finished)
    home.ready("long")
    (held,) = [row for row in world.get("nodecache", node)["status"]["datasets"] if row["namespace"] == home.namespace]
    # The new process counts what it fetched itself; what was there before it started is not among that.
    assert held["warmFiles"] == COUNT
    assert held["fetchedFiles"] <= COUNT - before + 8  # 8: files in flight when the old one stopped
    assert world.sidecar_of(node)["metadata"]["uid"] != old["uid"]


def test_deleted_operator_pods_change_nothing(world: World, home: Home) -> None:
    node = started(home)
    listing = world.get("dataset", "long", home.namespace)["status"]["listingId"]
    for pod in world.system_pods("operator"):
        world.kubectl("delete", "pod", pod["metadata"]["name"], "-n", SYSTEM, "--wait=false")
    ready = home.ready("long")
    assert list(node_rows(ready)) == [node]
    assert ready["status"]["listingId"] == listing
    assert condition(ready, "Warm") == "True"
