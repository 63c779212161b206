"""Two Datasets in one pod; one Dataset in two namespaces by grant, and refused without it."""

from collections.abc import Iterator

import pytest

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World


def test_two_datasets_in_one_pod_are_two_folders(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(5, 1000, "a/", seed=1) | files(5, 1000, "b/", seed=2))
    home.dataset("first", bucket, "a/")
    home.dataset("second", bucket, "b/")
    command = "cd / && find a b -type f | sort | xargs sha256sum"
    world.apply(manifests.pod(home.namespace, "both", "first:/a, second:/b", command))
    assert home.read_sums("both") == bucket.sums()


@pytest.fixture
def guests(world: World, home: Home) -> Iterator[str]:
    name = f"guest-{home.namespace}"
    world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    world.removals.begin(name)


def test_a_granted_namespace_mounts_it_and_another_is_told_what_to_add(world: World, home: Home, guests: str) -> None:
    bucket = home.bucket()
    bucket.put(files(5, 1000))
    home.dataset("shared", bucket, access={"namespaces": ["guest-*"]})
    home.dataset("private", bucket)
    home.ready("shared")
    world.apply(manifests.reading_pod(guests, "granted", f"{home.namespace}/shared"))
    world.finished("granted", guests)
    assert manifests.sums(world.logs("granted", guests)) == bucket.sums()

    refusal = world.refused(manifests.reading_pod(guests, "refused", f"{home.namespace}/private"))
    assert "spec.access.namespaces" in refusal
    assert guests in refusal


def test_a_hand_made_volume_cannot_go_round_the_grant(world: World, home: Home, guests: str) -> None:
    bucket = home.bucket()
    bucket.put(files(5, 1000))
    home.dataset("private", bucket, cache={"replicas": "all"})
    home.ready("private")
    attributes = {"dataset": "private", "datasetNamespace": home.namespace}
    sneaky = manifests.pod(guests, "sneaky", "", "ls /data")
    sneaky["spec"]["volumes"] = [
        {"name": "data", "csi": {"driver": "csi.stoker.dev", "readOnly": True, "volumeAttributes": attributes}}
    ]
    sneaky["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    world.apply(sneaky)
    event = world.wait_event("sneaky", guests, "FailedMount")
    assert "spec.access.namespaces" in event
