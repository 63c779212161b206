"""Pods that mount the Dataset's PersistentVolumeClaim read the same bytes, with and without a gate."""

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World


def with_claim(home: Home, name: str, annotation: str) -> manifests.Object:
    """Make a pod that reads the claim of the Dataset ``train``."""
    pod = manifests.pod(home.namespace, name, annotation, manifests.SUM_EVERYTHING.format(path="/data"))
    container = pod["spec"]["containers"][0] | {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "train"}}]
    return pod | {"spec": pod["spec"] | {"containers": [container], "volumes": volumes}}


def test_the_claim_serves_the_bytes_and_an_annotation_without_a_path_holds_its_pod(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(20, 400_000))
    home.dataset("train", bucket, warm={"bandwidthLimit": "2Mi"})
    world.apply(with_claim(home, "gated", "train"))
    assert world.wait_event("gated", home.namespace, "WaitingForData")
    assert home.read_sums("gated") == bucket.sums()
    world.apply(with_claim(home, "plain", ""))
    assert home.read_sums("plain") == bucket.sums()
