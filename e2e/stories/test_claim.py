"""A pod that only names the Dataset's PersistentVolumeClaim reads the same bytes."""

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World


def with_claim(pod: manifests.Object, claim: str) -> manifests.Object:
    container = pod["spec"]["containers"][0] | {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return pod | {"spec": pod["spec"] | {"containers": [container], "volumes": volumes}}


def test_the_claim_serves_the_datasets_bytes(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(30, 10_000))
    home.dataset("train", bucket)
    home.ready("train")
    plain = manifests.pod(home.namespace, "reader", "", manifests.SUM_EVERYTHING.format(path="/data"))
    world.apply(with_claim(plain, "train"))
    assert home.read_sums("reader") == bucket.sums()


def test_an_annotation_without_a_path_holds_a_pod_that_brings_the_claim(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(20, 400_000))
    home.dataset("train", bucket, warm={"bandwidthLimit": "2Mi"})
    gated = manifests.pod(home.namespace, "reader", "train", manifests.SUM_EVERYTHING.format(path="/data"))
    world.apply(with_claim(gated, "train"))
    assert world.wait_event("reader", home.namespace, "WaitingForData")
    assert home.read_sums("reader") == bucket.sums()
