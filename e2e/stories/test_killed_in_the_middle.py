"""The sidecar's and the operator's pods are deleted while a Dataset warms: it goes on without starting over."""

from e2e.cluster.processes import run
from e2e.support.bucket import files
from e2e.support.world import SYSTEM, Home, World, condition, node_rows, warm_rows

COUNT, SIZE = 100, 200_000


def warm_files(item: dict[str, object]) -> int:
    return sum(row["warmFiles"] for row in node_rows(item).values())


def started(home: Home) -> str:
    """Begin a slow warming and return its node once a third is there."""
    bucket = home.bucket()
    bucket.put(files(COUNT, SIZE))
    home.dataset("long", bucket, warm={"bandwidthLimit": "2Mi"})
    rows = node_rows(home.until("long", lambda it: warm_files(it) > COUNT // 3))
    (node,) = (name for name, row in rows.items() if row["warmFiles"])
    return str(node)


def finished_files(world: World, node: str, uid: str) -> dict[str, str]:
    """Return inode and change time of every finished file on the node's disk, by path: one fetched again has others."""
    script = f"cd /var/lib/stoker/cache/datasets/{uid}/versions/*/tree && find . -type f -printf '%p %i %C@\\n'"
    lines = run(*world.cluster.node(node).entry(), "sh", "-c", script).splitlines()
    return {path: identity for path, _, identity in (line.partition(" ") for line in lines)}


def test_a_deleted_sidecar_pod_fetches_no_finished_file_again(world: World, home: Home) -> None:
    node = started(home)
    old = world.sidecar_of(node)["metadata"]
    uid = world.get("dataset", "long", home.namespace)["metadata"]["uid"]
    before = finished_files(world, node, uid)
    assert COUNT // 3 < len(before) < COUNT
    world.kubectl("delete", "pod", old["name"], "-n", SYSTEM, "--grace-period=5", "--wait")
    home.ready("long")
    after = finished_files(world, node, uid)
    assert len(after) == COUNT
    assert {path: identity for path, identity in after.items() if path in before} == before
    assert world.sidecar_of(node)["metadata"]["uid"] != old["uid"]


def test_deleted_operator_pods_change_nothing(world: World, home: Home) -> None:
    node = started(home)
    listing = world.get("dataset", "long", home.namespace)["status"]["listingId"]
    for pod in world.system_pods("operator"):
        world.kubectl("delete", "pod", pod["metadata"]["name"], "-n", SYSTEM, "--wait=false")
    ready = home.ready("long")
    assert list(warm_rows(ready)) == [node]
    assert ready["status"]["listingId"] == listing
    assert condition(ready, "Warm") == "True"
