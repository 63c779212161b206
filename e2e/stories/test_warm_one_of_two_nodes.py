"""A Dataset is warmed on one of two nodes, and everything that users look at tells the truth, while and after."""

from e2e.support.bucket import files
from e2e.support.world import Home, World, condition, node_rows

COUNT, SIZE = 120, 256 * 1024  # 30 MiB
LIMIT = "4Mi"  # a second: slow enough to be seen on the way


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


def test_the_operator_writes_a_settled_status_no_more(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(5, 1000))
    home.dataset("quiet", bucket)
    # The speed is the last thing to change: it falls back to nothing after the last byte.
    settled = home.until("quiet", lambda it: condition(it, "Ready") == "True" and not it["status"]["speed"])
    before = settled["metadata"]["resourceVersion"]
    # Something else changes on the same node meanwhile: the other Dataset's whole life is our clock.
    home.dataset("other", bucket)
    home.ready("other")
    assert world.get("dataset", "quiet", home.namespace)["metadata"]["resourceVersion"] == before
