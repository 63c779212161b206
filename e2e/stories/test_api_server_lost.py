"""Repeated outages of the API server: pods continue to read, and no work is repeated.

``STOKER_E2E_OUTAGE=600 STOKER_E2E_RESTARTS=20`` makes the outage ten minutes long, and the restarts twenty.
"""

import os
import time

from e2e.cluster.processes import run, wait_for
from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World, node_rows

OUTAGE = float(os.environ.get("STOKER_E2E_OUTAGE", "20"))  # seconds
RESTARTS = int(os.environ.get("STOKER_E2E_RESTARTS", "3"))
COUNT, SIZE = 200, 100_000
READ_ON = "i=0; while true; do cat /data/*/* | wc -c; i=$((i+1)); sleep 0.5; done"


def warm_files(item: manifests.Object) -> int:
    return sum(row["warmFiles"] for row in node_rows(item).values())


def finished_files(world: World, uid: str) -> dict[str, str]:
    """Return inode and change time of every finished file on all nodes' disks. A new fetch changes them."""
    script = f"cd /var/lib/stoker/cache/datasets/{uid}/versions/*/tree && find . -type f -printf '%p %i %C@\\n' || true"
    found = {}
    for node in world.cluster.nodes:
        for line in run(*world.cluster.node(node).entry(), "sh", "-c", script).splitlines():
            path, _, identity = line.partition(" ")
            found[f"{node}{path}"] = identity
    return found


def fetched_twice(world: World, before: dict[str, str], after: dict[str, str]) -> str:
    """Return text with each node's files before and after, their times, and the time when it became ready."""
    rows = []
    for name in world.cluster.nodes:
        times = sorted(float(after[path].split()[1]) for path in after if path.startswith(f"{name}."))
        had = sum(path.startswith(f"{name}.") for path in before)
        conditions = world.get("node", name)["status"]["conditions"]
        ready = next(one["lastTransitionTime"] for one in conditions if one["type"] == "Ready")
        rows.append(f"{name}: {had} files, then {len(times)} of {times[:1]} to {times[-1:]}, ready since {ready}")
    return "; ".join(rows)


def sizes_read(world: World, home: Home) -> list[str]:
    return world.logs("trainer", home.namespace).split()


def test_nothing_is_done_twice_and_readers_notice_nothing(world: World, home: Home) -> None:
    world.removals.finish()  # without an API server, objects cannot be removed
    bucket = home.bucket()
    bucket.put(files(COUNT, SIZE, "warm/") | files(COUNT, SIZE, "slow/", seed=2))
    home.dataset("warm", bucket, "warm/")
    home.apply_pod(manifests.pod(home.namespace, "trainer", "warm:/data", READ_ON, scheduling="Require"))
    world.wait("pod", "trainer", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
    home.dataset("slow", bucket, "slow/", warm={"bandwidthLimit": "1Mi"})
    home.apply_pod(manifests.reading_pod(home.namespace, "held", "slow", scheduling="Require"))
    slow = home.until("slow", lambda it: warm_files(it) > COUNT // 10)
    before = finished_files(world, slow["metadata"]["uid"])
    assert 0 < len(before) < COUNT

    world.cluster.stop_api_server()
    time.sleep(OUTAGE)  # the subject of the test: there is no API server during the outage
    world.cluster.start_api_server()
    for _ in range(RESTARTS):
        world.cluster.stop_api_server()
        world.cluster.start_api_server()

    assert home.read_sums("held") == bucket.sums("slow/")
    after = finished_files(world, slow["metadata"]["uid"])
    assert len(after) == COUNT, fetched_twice(world, before, after)
    assert {path: identity for path, identity in after.items() if path in before} == before
    released = [event for event in world.events("held", home.namespace) if event.startswith("Released")]
    assert len(released) == 1
    count = len(sizes_read(world, home))
    wait_for("the reader to go on", lambda: len(sizes_read(world, home)) > count + 1, 60.0)
    assert set(sizes_read(world, home)) == {str(COUNT * SIZE)}
    after_the_outage_all_is_as_before(world, home)


def after_the_outage_all_is_as_before(world: World, home: Home) -> None:
    home.dataset("later", home.bucket(), "warm/")
    home.ready("later")
