"""The sidecar's and the operator's pods are deleted while a Dataset warms: it continues without a restart from zero."""

from e2e.cluster.processes import run
from e2e.support.bucket import files
from e2e.support.world import SYSTEM, Home, World, condition, node_rows, warm_rows

COUNT, SIZE = 100, 200_000


def warm_files(item: dict[str, object]) -> int:
    return sum(row["warmFiles"] for row in node_rows(item).values())


def finished_files(world: World, node: str, uid: str) -> dict[str, str]:
    """Return inode and change time of every finished file on the node's disk, by path. A new fetch changes them."""
    script = f"cd /var/lib/stoker/cache/datasets/{uid}/versions/*/tree && find . -type f -printf '%p %i %C@\\n'"
    lines = run(*world.cluster.node(node).entry(), "sh", "-c", script).splitlines()
    return {path: identity for path, _, identity in (line.partition(" ") for line in lines)}


def test_deleted_pods_of_sidecar_and_operator_fetch_no_finished_file_again_and_list_nothing(
    world: World, home: Home
) -> None:
    bucket = home.bucket()
    bucket.put(files(COUNT, SIZE))
    home.dataset("long", bucket, warm={"bandwidthLimit": "2Mi"})
    slow = home.until("long", lambda it: warm_files(it) > COUNT // 3)
    (node,) = (name for name, row in node_rows(slow).items() if row["warmFiles"])
    uid, listing = slow["metadata"]["uid"], slow["status"]["listingId"]
    old = world.sidecar_of(node)["metadata"]
    before = finished_files(world, node, uid)
    assert COUNT // 3 < len(before) < COUNT
    for pod in world.system_pods("operator"):
        world.kubectl("delete", "pod", pod["metadata"]["name"], "-n", SYSTEM, "--wait=false")
    world.kubectl("delete", "pod", old["name"], "-n", SYSTEM, "--grace-period=5", "--wait")
    ready = home.ready("long")
    after = finished_files(world, node, uid)
    assert len(after) == COUNT
    assert {path: identity for path, identity in after.items() if path in before} == before
    assert world.sidecar_of(node)["metadata"]["uid"] != old["uid"]
    assert list(warm_rows(ready)) == [node]
    assert (ready["status"]["listingId"], condition(ready, "Warm")) == (listing, "True")
