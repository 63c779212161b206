"""When maxWait passes, Prefer lets the pod go and says so; Require says why not."""

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World

SLOW = {"bandwidthLimit": "64Ki"}  # the 6 MB below would take a minute and a half


def test_prefer_releases_a_pod_anyway_and_it_reads_right_bytes(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(20, 300_000))
    home.dataset("slow", bucket, warm=SLOW)
    world.apply(manifests.reading_pod(home.namespace, "reader", "slow", scheduling="Prefer", max_wait="3s"))
    assert world.wait_event("reader", home.namespace, "MaxWaitPassed")
    assert home.read_sums("reader") == bucket.sums()


def test_require_goes_on_holding_and_says_why(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(20, 300_000))
    home.dataset("slow", bucket, warm=SLOW | {"paused": True})
    world.apply(manifests.reading_pod(home.namespace, "reader", "slow", scheduling="Require", max_wait="3s"))
    event = world.wait_event("reader", home.namespace, "MaxWaitPassed")
    assert "Require" in event
    assert world.get("pod", "reader", home.namespace)["spec"]["schedulingGates"]
    assert "paused" in world.stoker("-n", home.namespace, "why", "reader")
    world.stoker("-n", home.namespace, "resume", "slow")
    patch = '{"spec":{"warm":{"bandwidthLimit":null}}}'
    world.kubectl("patch", "dset", "slow", "-n", home.namespace, "--type=merge", "-p", patch)
    assert home.read_sums("reader") == bucket.sums()
