"""Under Follow a changed source becomes a new version: only the difference is fetched, and no pod sees a mix."""

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World, node_rows

AGAIN = "until [ -e /tmp/again ]; do sleep 0.2; done"
SUM = manifests.SUM_EVERYTHING.format(path="/data")
TWICE = f"{SUM}; echo --; {AGAIN}; {SUM}"


def test_a_new_version_reaches_new_pods_and_the_old_pod_keeps_its_own(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(30, 50_000))
    before = bucket.sums()
    home.dataset("moving", bucket, refresh={"policy": "Follow", "interval": "10s"})
    first = home.ready("moving")["status"]["version"]
    world.apply(manifests.pod(home.namespace, "old", "moving:/data", TWICE))
    world.wait("pod", "old", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")

    bucket.put({"0/00000.bin": b"changed" * 1000, "new/file.bin": b"new" * 1000})
    bucket.delete(["1/00001.bin"])
    renewed = home.until("moving", lambda it: it["status"]["version"] != first and it["status"]["phase"] == "Ready")
    assert renewed["status"]["files"] == 30
    (node,) = node_rows(renewed)
    (held,) = [row for row in world.get("nodecache", node)["status"]["datasets"] if row["namespace"] == home.namespace]
    assert held["fetchedFiles"] == 2
    assert first in held["retained"]

    world.apply(manifests.reading_pod(home.namespace, "new", "moving"))
    assert home.read_sums("new") == bucket.sums()
    world.kubectl("exec", "old", "-n", home.namespace, "--", "touch", "/tmp/again")
    world.finished("old", home.namespace)
    one, two = world.logs("old", home.namespace).split("--\n")
    assert manifests.sums(one) == before
    assert manifests.sums(two) == before
