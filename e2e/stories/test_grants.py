"""A pod reads a Dataset of its own namespace, and one of another namespace by grant, in two folders."""

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World, temporary_home


def test_a_pod_reads_its_own_dataset_and_a_granted_one(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(5, 1000, "a/", seed=1) | files(5, 1000, "b/", seed=2))
    home.dataset("shared", bucket, "a/", access={"namespaces": ["guest-*"]})
    home.ready("shared")
    with temporary_home(world, f"guest-{home.namespace}") as guest:
        guest.dataset("own", bucket, "b/")
        command = "cd / && find a b -type f | sort | xargs sha256sum"
        guest.apply_pod(manifests.pod(guest.namespace, "both", f"{home.namespace}/shared:/a, own:/b", command))
        assert guest.read_sums("both") == bucket.sums()
