"""An administrator's limits apply on real nodes: a foreign priority, and a quota."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import PATIENTLY, QUICKLY, Home, World, condition, node_rows, temporary_home

NODE = "node-1"
THERE = {"nodeSelector": {"kubernetes.io/hostname": NODE}}
# One small folder in memory, so that two Datasets of nine MiB do not fit together.
SMALL = (
    "sidecar.cacheDirs[0].medium=Memory",
    "sidecar.cacheDirs[0].sizeLimit=16Mi",
    *QUICKLY,
)
MIB = 2**20


@pytest.fixture(scope="module", autouse=True)
def small_folders(world: World) -> None:
    world.helm_install(*SMALL)


@pytest.fixture
def limited(world: World, home: Home) -> Iterator[Callable[..., str]]:
    """Return a function that makes or changes the story's DatasetClass, and returns its name."""

    def write(**limits: object) -> str:
        spec = {"allowPinning": False, "priority": {"max": 0}} | limits
        meta = {"name": home.namespace}
        world.apply({"apiVersion": "stoker.dev/v1alpha1", "kind": "DatasetClass", "metadata": meta, "spec": spec})
        return home.namespace

    yield write
    world.kubectl("delete", "datasetclass", home.namespace, "--wait=false")


@pytest.fixture
def stranger(world: World, home: Home) -> Iterator[Home]:
    with temporary_home(world, f"stranger-{home.namespace}") as made:
        yield made


def phase_on_node(item: manifests.Object) -> str:
    return str(node_rows(item).get(NODE, {}).get("phase", ""))


def test_a_stranger_with_the_highest_priority_drops_nobody_s_data(
    home: Home, stranger: Home, limited: Callable[..., str]
) -> None:
    name = limited()
    for one in (home, stranger):
        one.bucket().put(files(9, MIB))
    home.dataset("ours", home.bucket(), cache=THERE, className=name)
    home.ready("ours")
    greedy: dict[str, Any] = {"cache": THERE | {"pinned": True}, "warm": {"priority": 1000}, "className": name}
    stranger.dataset("theirs", stranger.bucket(), **greedy)
    full = stranger.until("theirs", lambda it: phase_on_node(it) == "Full")
    told = condition(full, "Limited", "message")
    assert f"warm.priority 1000 is changed to 0: DatasetClass {name} allows 0 at most" in told
    assert "cache.pinned is ignored" in told
    assert home.until("ours", lambda it: True)["status"]["cachedPercent"] == "100%"

    # The limit of the class had blocked it.
    limited(priority={"max": 1000})
    stranger.ready("theirs")
    # It reports Evicted first, and DiskFull when the remaining space has been filled again.
    home.until("ours", lambda it: condition(it, "Degraded") == "True" and it["status"]["cachedPercent"] != "100%")


def test_past_its_quota_a_namespace_reads_through_and_keeps_nothing(
    world: World, home: Home, limited: Callable[..., str]
) -> None:
    world.removals.finish()  # the folder of the node has room again
    name = limited(quota={"perNode": "5Mi"})
    bucket = home.bucket()
    bucket.put(files(3, MIB, "first/") | files(3, MIB, "second/", seed=2))
    home.dataset("first", bucket, "first/", cache=THERE, className=name)
    home.ready("first")
    home.dataset("second", bucket, "second/", cache=THERE, scheduling={"mode": "None"}, className=name)
    waiting = home.until("second", lambda it: condition(it, "Warm", "reason") == "NamespaceQuotaExceeded")
    assert "by first (3.0 MiB); this Dataset needs 3.0 MiB per node" in condition(waiting, "Warm", "message")
    assert "3.0 MiB of 5.0 MiB on each node" in world.stoker("-n", home.namespace, "status")

    pod = manifests.pod(home.namespace, "reader", "second:/data", manifests.SUM_EVERYTHING.format(path="/data"))
    pod["spec"]["nodeSelector"] = THERE["nodeSelector"]
    home.apply_pod(pod)
    expected = {path: digest for path, digest in bucket.sums().items() if path.startswith("second/")}
    assert sorted(home.read_sums("reader").values()) == sorted(expected.values())
    kept = [row for row in world.get("nodecache", NODE)["status"]["datasets"] if row["name"] == "second"]
    assert all(row["warmBytes"] == 0 for row in kept)
    world.kubectl("delete", "dataset", "first", "-n", home.namespace, "--wait", PATIENTLY)
    home.until("second", lambda it: phase_on_node(it) == "Warm")
