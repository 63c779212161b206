"""A sidecar pod is deleted while a pod reads through its FUSE mount: reads wait for the next one, and none fails."""

from functools import partial

from e2e.cluster.processes import run, wait_for
from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import PATIENCE, SYSTEM, Home, World, condition

COUNT, SIZE = 800, 20_000
# One line per file, repeatedly: digest and path, or the error.
READ = (
    "cd /data && until [ -e /tmp/done ]; do for file in $(find . -type f | sort); do "
    "sha256sum $file 2>&1 || echo failed; sleep 0.1; [ -e /tmp/done ] && break; done; done; true"
)


def fuse_mounts(world: World, node: str) -> list[str]:
    """List the node's FUSE mounts: mount number, device and path."""
    rows = run(*world.cluster.node(node).entry(), "cat", "/proc/self/mountinfo").splitlines()
    return [" ".join(row.split()[:5]) for row in rows if "fuse.stoker" in row]


def test_no_read_fails_while_a_sidecar_pod_is_deleted_and_the_next_one_forced_away(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(COUNT, SIZE))
    home.dataset("cold", bucket, cache={"replicas": 0}, warm={"policy": "OnDemand"})
    home.until("cold", lambda it: it.get("status", {}).get("files") == COUNT)
    world.apply(manifests.pod(home.namespace, "reader", "cold:/data", READ, scheduling="None"))
    running = world.wait("pod", "reader", home.namespace, lambda it: it.get("status", {}).get("phase") == "Running")
    node = running["spec"]["nodeName"]
    wait_for("the reader to read", lambda: "./" in world.logs("reader", home.namespace), PATIENCE)
    before = fuse_mounts(world, node)
    assert before != []
    for how in ((), ("--force", "--grace-period=0")):
        old = world.sidecar_of(node)["metadata"]
        world.kubectl("delete", "pod", old["name"], "-n", SYSTEM, "--wait", *how)
        wait_for("the next sidecar", partial(is_replaced, world, node, old["uid"]), PATIENCE)
        seen = len(world.logs("reader", home.namespace).splitlines())
        wait_for("more reads", partial(has_read, world, home, seen + 20), PATIENCE)
        assert fuse_mounts(world, node) == before

    world.kubectl("exec", "reader", "-n", home.namespace, "--", "touch", "/tmp/done")
    world.finished("reader", home.namespace)
    lines = world.logs("reader", home.namespace).splitlines()
    assert [line for line in lines if "failed" in line or "not connected" in line] == []
    assert manifests.sums("\n".join(lines)).items() <= bucket.sums().items()


def has_read(world: World, home: Home, lines: int) -> bool:
    return len(world.logs("reader", home.namespace).splitlines()) > lines


def is_replaced(world: World, node: str, old: str) -> bool:
    sidecars = [one for one in world.system_pods("sidecar") if one["spec"].get("nodeName") == node]
    return any(one["metadata"]["uid"] != old and condition(one, "Ready") == "True" for one in sidecars)
