"""helm upgrade while a pod reads a cold Dataset: the new sidecar takes the mounts over, without effect on the pod."""

from itertools import pairwise

from e2e.cluster.processes import run
from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World

# Ten files a second, more than an upgrade's duration.
COUNT, SIZE = 800, 20_000
# One line per file, nearly all for the first time: seconds since boot, digest, path.
READ = (
    "cd /data && until [ -e /tmp/done ]; do for file in $(find . -type f | sort); do "
    "cut -d' ' -f1 /proc/uptime; sha256sum $file || echo failed failed; sleep 0.1; "
    "[ -e /tmp/done ] && break; done; done; true"
)
# Measured: 1.0 s with a load of 19 on 2 cores. Reads of missing bytes wait for the next agent and fetcher.
LONGEST_GAP = 10.0


def layers_at(world: World, node: str) -> list[str]:
    """List the node's FUSE mounts: mount number, device and path."""
    rows = run(*world.cluster.node(node).entry(), "cat", "/proc/self/mountinfo").splitlines()
    return [" ".join(row.split()[:5]) for row in rows if "fuse.stoker" in row]


def test_an_upgrade_fails_no_read_of_cold_data_and_keeps_the_mount(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(COUNT, SIZE))
    home.dataset("cold", bucket, cache={"replicas": 0}, warm={"policy": "OnDemand"})
    home.until("cold", lambda it: it.get("status", {}).get("files") == COUNT)
    world.apply(manifests.pod(home.namespace, "reader", "cold:/data", READ, scheduling="None"))
    running = world.wait("pod", "reader", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
    node = running["spec"]["nodeName"]
    before = layers_at(world, node)
    old = world.sidecar_of(node)["metadata"]["name"]

    world.helm_install("sidecar.podAnnotations.upgraded=once")

    after = layers_at(world, node)
    world.kubectl("exec", "reader", "-n", home.namespace, "--", "touch", "/tmp/done")
    world.finished("reader", home.namespace)
    lines = world.logs("reader", home.namespace).splitlines()
    times = [float(line) for line in lines if " " not in line]
    assert manifests.sums("\n".join(line for line in lines if " " in line)).items() <= bucket.sums().items()
    assert max(later - earlier for earlier, later in pairwise(times)) < LONGEST_GAP
    assert world.sidecar_of(node)["metadata"]["name"] != old
    assert before != []
    assert after == before
