"""An annotated pod is held with a reason, released onto the warm node, and reads the source's bytes."""

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World, warm_rows


def test_the_pod_is_held_then_lands_on_the_warm_node_and_reads_every_byte(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(60, 300_000) | {"large.bin": b"0123456789abcdef" * 2**20})
    home.dataset("train", bucket, cache={"replicas": 1}, warm={"bandwidthLimit": "8Mi"})
    home.apply_pod(manifests.reading_pod(home.namespace, "reader", "train"))

    held = world.get("pod", "reader", home.namespace)
    assert held["spec"]["schedulingGates"] == [{"name": "stoker.dev/warm"}]
    event = world.wait_event("reader", home.namespace, "WaitingForData")
    assert "train" in event
    assert any(character.isdigit() for character in event)

    assert home.read_sums("reader") == bucket.sums()
    ended = world.get("pod", "reader", home.namespace)
    assert ended["spec"]["nodeName"] in warm_rows(world.get("dataset", "train", home.namespace))
    assert world.wait_event("reader", home.namespace, "Released")
    why = world.stoker("-n", home.namespace, "why", "reader")
    assert "100 % warm" in why
    assert "It was held for" in why


def test_all_pods_of_the_one_warm_node_are_nominated_for_it_and_land_there(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(4, 1_000))
    home.dataset("train", bucket, cache={"replicas": 1})
    names = [f"reader-{number}" for number in range(4)]
    for name in names:
        home.apply_pod(manifests.reading_pod(home.namespace, name, "train"))
    assert [home.read_sums(name) for name in names] == [bucket.sums()] * len(names)
    (warm,) = warm_rows(world.get("dataset", "train", home.namespace))
    for name in names:
        assert world.get("pod", name, home.namespace)["spec"]["nodeName"] == warm
        assert f"to be tried on {warm} first" in world.wait_event(name, home.namespace, "Released")


def test_a_pod_without_the_annotation_is_not_touched(world: World, home: Home) -> None:
    world.apply(manifests.pod(home.namespace, "plain", "", "true"))
    plain = world.finished("plain", home.namespace)
    assert "stoker.dev/managed" not in plain["metadata"].get("labels", {})
    assert len(plain["spec"]["volumes"]) == 1  # the service account's token
