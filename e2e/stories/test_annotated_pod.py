"""Annotated pods are gated with a reason, released onto the one warm node, and read the source's bytes."""

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World, warm_rows

NAMES = [f"reader-{number}" for number in range(4)]


def test_pods_are_held_then_nominated_for_the_warm_node_and_read_every_byte_there(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(60, 300_000) | {"large.bin": b"0123456789abcdef" * 2**20})
    home.dataset("train", bucket, cache={"replicas": 1}, warm={"bandwidthLimit": "8Mi"})
    world.apply(*(manifests.reading_pod(home.namespace, name, "train") for name in NAMES))

    held = world.get("pod", NAMES[0], home.namespace)
    assert held["spec"]["schedulingGates"] == [{"name": "stoker.dev/warm"}]
    event = world.wait_event(NAMES[0], home.namespace, "WaitingForData")
    assert "train" in event
    assert any(character.isdigit() for character in event)

    assert [home.read_sums(name) for name in NAMES] == [bucket.sums()] * len(NAMES)
    (warm,) = warm_rows(world.get("dataset", "train", home.namespace))
    for name in NAMES:
        assert world.get("pod", name, home.namespace)["spec"]["nodeName"] == warm
        assert f"to be tried on {warm} first" in world.wait_event(name, home.namespace, "Released")
    why = world.stoker("-n", home.namespace, "why", NAMES[0])
    assert "100 % warm" in why
    assert "It was held for" in why
