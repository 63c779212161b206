"""A pod that does not want to wait reads a cold Dataset at once, and only what it touches is fetched first."""

import hashlib

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World

LARGE = bytes(range(256)) * 2**17  # 32 MiB: four chunks
COMMAND = (
    "cd /data && sha256sum 0/00000.bin && dd if=large.bin bs=1M skip=20 count=1 2>/dev/null | sha256sum && ls | wc -l"
)


def test_a_cold_dataset_gives_right_bytes_at_once_for_what_is_touched(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(50, 1000) | {"large.bin": LARGE})
    home.dataset("cold", bucket, cache={"replicas": 0}, warm={"policy": "OnDemand", "paused": True})
    home.until("cold", lambda it: it.get("status", {}).get("files") == 51)
    world.apply(manifests.pod(home.namespace, "reader", "cold:/data", COMMAND, scheduling="None"))

    ended = world.finished("reader", home.namespace)
    small, middle, entries = (line.split()[0] for line in world.logs("reader", home.namespace).splitlines())
    assert small == bucket.sums()["0/00000.bin"]
    assert middle == hashlib.sha256(LARGE[20 * 2**20 : 21 * 2**20]).hexdigest()
    assert entries == "11"
    assert "schedulingGates" not in ended["spec"]
    held = world.get("nodecache", ended["spec"]["nodeName"])["status"]["datasets"]
    (row,) = [row for row in held if row["namespace"] == home.namespace]
    assert row["warmBytes"] < len(LARGE)
