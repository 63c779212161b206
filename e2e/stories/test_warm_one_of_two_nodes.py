"""A Dataset is warmed on one of two nodes, and every display for users is correct, during the warm-up and after it."""

from e2e.support.bucket import files
from e2e.support.world import Home, World, condition, node_rows

COUNT, SIZE = 120, 256 * 1024  # 30 MiB
LIMIT = "4Mi"  # bytes per second: slow enough to observe the progress


def test_warming_is_shown_while_it_happens_and_is_true_afterwards(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(COUNT, SIZE))
    home.dataset("pictures", bucket, cache={"replicas": 1}, warm={"bandwidthLimit": LIMIT})

    warming = home.until(
        "pictures", lambda it: 0 < sum(row["warmBytes"] for row in node_rows(it).values()) < COUNT * SIZE
    )
    assert warming["status"]["phase"] == "Warming"
    assert condition(warming, "Ready") == "False"
    assert condition(warming, "Warm", "reason") == "Warming"
    assert warming["status"]["files"] == COUNT
    assert warming["status"]["warmNodes"] == "0/1"

    ready = home.ready("pictures")
    assert ready["status"]["phase"] == "Ready"
    assert ready["status"]["cachedPercent"] == "100%"
    assert ready["status"]["warmNodes"] == "1/1"
    truth = {kind: condition(ready, kind) for kind in ("Accepted", "Listed", "Warm", "Ready", "Degraded")}
    assert truth == {"Accepted": "True", "Listed": "True", "Warm": "True", "Ready": "True", "Degraded": "False"}
    held = [row for row in node_rows(ready).values() if row["phase"] == "Warm" or row["warmBytes"]]
    assert [(row["warmFiles"], row["warmBytes"]) for row in held] == [(COUNT, COUNT * SIZE)], ready["status"]["nodes"]
    (node,) = held

    cache = world.get("nodecache", node["name"])
    told = {row["name"]: row for row in cache["status"]["datasets"]}["pictures"]
    assert (told["phase"], told["warmBytes"], told["mode"]) == ("Warm", COUNT * SIZE, "native")
    assert cache["metadata"]["ownerReferences"][0]["kind"] == "Node"

    table = world.kubectl("get", "dset", "pictures", "-n", home.namespace).splitlines()
    assert table[0].split()[:6] == ["NAME", "PHASE", "FILES", "TOTAL", "CACHED", "CACHED%"]
    assert " 30.0 MiB " in table[1]
    assert world.wait_event("pictures", home.namespace, "Listed")
    assert "100%" in world.wait_event("pictures", home.namespace, "Warm: ")
    world.kubectl("wait", "--for=condition=Ready", "dataset/pictures", "-n", home.namespace, "--timeout=5s")
