"""What an administrator allows holds on real nodes: a stranger's priority, and a quota."""

from collections.abc import Iterator

import pytest

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import QUICKLY, Home, World, condition, node_rows, temporary_home

NODE = "node-1"
THERE = {"nodeSelector": {"kubernetes.io/hostname": NODE}}
# One small folder in memory, so that two Datasets of nine MiB do not fit beside each other.
SMALL = (
    "sidecar.cacheDirs[0].medium=Memory",
    "sidecar.cacheDirs[0].sizeLimit=16Mi",
    *QUICKLY,
)
MIB = 2**20


def allowed(**limits: object) -> list[str]:
    """Return the values that make the chart's class allow no more than this."""
    strict = {"allowPinning": "false", "priority.max": 0} | {key.replace("_", "."): one for key, one in limits.items()}
    return [f"datasetClass.spec.{field}={value}" for field, value in strict.items()]


@pytest.fixture(scope="module", autouse=True)
def defaults_afterwards(world: World) -> Iterator[None]:
    yield
    world.helm_install(*QUICKLY)


@pytest.fixture
def stranger(world: World, home: Home) -> Iterator[Home]:
    with temporary_home(world, f"stranger-{home.namespace}") as made:
        yield made


def phase_on_node(item: manifests.Object) -> str:
    return str(node_rows(item).get(NODE, {}).get("phase", ""))


def test_a_stranger_with_the_highest_priority_drops_nobody_s_data(world: World, home: Home, stranger: Home) -> None:
    world.helm_install(*SMALL, *allowed())
    for one in (home, stranger):
        one.bucket().put(files(9, MIB))
    home.dataset("ours", home.bucket(), cache=THERE)
    home.ready("ours")
    stranger.dataset("theirs", stranger.bucket(), cache=THERE | {"pinned": True}, warm={"priority": 1000})
    full = stranger.until("theirs", lambda it: phase_on_node(it) == "Full")
    told = condition(full, "Limited", "message")
    assert "warm.priority 1000 is taken as 0: DatasetClass default allows 0 at most" in told
    assert "cache.pinned is not followed" in told
    assert home.until("ours", lambda it: True)["status"]["cachedPercent"] == "100%"

    # It was the class that held it off.
    world.helm_install(*SMALL, *allowed(priority_max=1000))
    stranger.ready("theirs")
    # First it says Evicted, and DiskFull as soon as what still fits has been fetched again.
    home.until("ours", lambda it: condition(it, "Degraded") == "True" and it["status"]["cachedPercent"] != "100%")


def test_past_its_quota_a_namespace_reads_through_and_keeps_nothing(world: World, home: Home) -> None:
    world.helm_install(*SMALL, *allowed(quota_perNode="5Mi"))
    bucket = home.bucket()
    bucket.put(files(3, MIB, "first/") | files(3, MIB, "second/", seed=2))
    home.dataset("first", bucket, "first/", cache=THERE)
    home.ready("first")
    home.dataset("second", bucket, "second/", cache=THERE, scheduling={"mode": "None"})
    waiting = home.until("second", lambda it: condition(it, "Warm", "reason") == "NamespaceQuotaExceeded")
    assert "by first (3.0 MiB); this one needs 3.0 MiB on a node" in condition(waiting, "Warm", "message")
    assert "3.0 MiB of 5.0 MiB on each node" in world.stoker("-n", home.namespace, "status")

    pod = manifests.pod(home.namespace, "reader", "second:/data", manifests.SUM_EVERYTHING.format(path="/data"))
    pod["spec"]["nodeSelector"] = THERE["nodeSelector"]
    home.apply_pod(pod)
    expected = {path: digest for path, digest in bucket.sums().items() if path.startswith("second/")}
    assert sorted(home.read_sums("reader").values()) == sorted(expected.values())
    kept = [row for row in world.get("nodecache", NODE)["status"]["datasets"] if row["name"] == "second"]
    assert all(row["warmBytes"] == 0 for row in kept)
    world.kubectl("delete", "dataset", "first", "-n", home.namespace, "--wait", "--timeout=60s")
    home.until("second", lambda it: phase_on_node(it) == "Warm")
