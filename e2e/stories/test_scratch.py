"""A pod writes into its Dataset's folder: privately, up to a limit, and only as long as it lives."""

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World

# As a user without rights. It waits at the end, so that its mount can be looked at.
_WRITES = """
set -e
cd /data
before=$(find . -type f | sort | xargs sha256sum)
echo mine > new
mkdir step && echo 1 > step/model && mv step step-1
for file in $(find . -name '*.bin' | head -n 1); do echo more >> $file; done
if full=$(dd if=/dev/zero of=fill bs=1M 2>&1); then exit 1; fi
echo "$full" | grep -q 'No space left'
rm fill
test "$(cat step-1/model) $(cat new)" = "1 mine"
echo "$before"
sleep 600
"""


def writing_pod(namespace: str, name: str, size: str) -> manifests.Object:
    """Make a pod of user 4321 that changes its Dataset's folder."""
    pod = manifests.pod(namespace, name, f"train:/data,scratch={size}", _WRITES)
    spec = pod["spec"] | {"securityContext": {"runAsUser": 4321, "runAsNonRoot": True}}
    return pod | {"spec": spec}


def test_a_pod_writes_privately_up_to_its_limit(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(20, 400_000) | {"large.bin": b"0123456789abcdef" * 2**16})
    home.dataset("train", bucket, cache={"replicas": 1})

    assert "must be a size from 64.0 MiB" in world.refused(writing_pod(home.namespace, "wrong", "20"))

    world.apply(writing_pod(home.namespace, "writer", "100Mi"))
    pod = world.wait(
        "pod",
        "writer",
        home.namespace,
        lambda it: (
            it.get("status", {}).get("phase") in ("Running", "Failed")
            and "large.bin" in world.logs("writer", home.namespace)
        ),
    )
    assert pod["status"]["phase"] == "Running"
    assert manifests.sums(world.logs("writer", home.namespace)) == bucket.sums()

    # Another pod on the node reads the source's bytes. The layer is in no other pod's sight.
    world.apply(manifests.reading_pod(home.namespace, "reader", "train"))
    assert home.read_sums("reader") == bucket.sums()
    sidecar = world.sidecar_of(pod["spec"]["nodeName"])["metadata"]["name"]
    assert _scratch_mounts(world, sidecar) > 0

    # The layer outlives the sidecar, and ends with its pod.
    world.kubectl("-n", "stoker-system", "delete", "pod", sidecar, "--wait=true")
    assert world.kubectl("-n", home.namespace, "exec", "writer", "--", "cat", "/data/new") == "mine\n"
    world.kubectl("-n", home.namespace, "exec", "writer", "--", "sh", "-c", "echo more > /data/after")
    world.kubectl("-n", home.namespace, "delete", "pod", "writer", "--wait=true")
    world.wait(
        "node",
        pod["spec"]["nodeName"],
        "",
        lambda it: _scratch_mounts(world, world.sidecar_of(it["metadata"]["name"])["metadata"]["name"]) == 0,
    )


def _scratch_mounts(world: World, sidecar: str) -> int:
    table = world.kubectl("-n", "stoker-system", "exec", sidecar, "-c", "sidecar", "--", "cat", "/proc/self/mountinfo")
    return table.count("/scratch/")
