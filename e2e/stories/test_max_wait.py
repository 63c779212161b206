"""After maxWait, Prefer releases the pod and says so. Require explains why it does not."""

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World

SLOW = {"bandwidthLimit": "64Ki"}  # the 6 MB below would take a minute and a half


def test_require_goes_on_holding_and_says_why_and_prefer_releases_a_pod_that_reads_right_bytes(
    world: World, home: Home
) -> None:
    bucket = home.bucket()
    bucket.put(files(20, 300_000))
    home.dataset("slow", bucket, warm=SLOW)
    world.apply(manifests.reading_pod(home.namespace, "strict", "slow", scheduling="Require", max_wait="3s"))
    event = world.wait_event("strict", home.namespace, "MaxWaitPassed")
    assert "Require" in event
    world.stoker("-n", home.namespace, "pause", "slow")
    assert "paused" in world.stoker("-n", home.namespace, "why", "strict")
    assert world.get("pod", "strict", home.namespace)["spec"]["schedulingGates"]
    world.stoker("-n", home.namespace, "resume", "slow")

    world.apply(manifests.reading_pod(home.namespace, "reader", "slow", scheduling="Prefer", max_wait="3s"))
    assert world.wait_event("reader", home.namespace, "MaxWaitPassed")
    assert home.read_sums("reader") == bucket.sums()

    patch = '{"spec":{"warm":{"bandwidthLimit":null}}}'
    world.kubectl("patch", "dset", "slow", "-n", home.namespace, "--type=merge", "-p", patch)
    assert home.read_sums("strict") == bucket.sums()
