"""helm upgrade from the previous release, and helm rollback to it, while pods read native, overlay and FUSE mounts."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import pytest

from e2e.cluster.processes import run, wait_for
from e2e.support import manifests
from e2e.support.bucket import Bucket, files
from e2e.support.manifests import Object
from e2e.support.world import SYSTEM, Home, World

SURGE = "sidecar.updateStrategy.rollingUpdate.maxSurge=2"
# Ten files a second: readers find files for the first time during the upgrade and during the rollback.
COLD, WARM, SIZE = 2400, 50, 2000
# Two lines per file: seconds since boot, then digest and path. Readers stop when /tmp/done exists.
READ = (
    "cd /data && until [ -e /tmp/done ]; do for file in $(find . -type f | sort); do "
    "cut -d' ' -f1 /proc/uptime; sha256sum $file || echo failed $file; sleep 0.1; "
    "[ -e /tmp/done ] && break; done; done; true"
)
# Seconds, as in test_upgrade: reads of missing bytes wait for the next agent and fetcher.
LONGEST_GAP = 10.0
# Lines that each pod must print after each change, and the limit in seconds.
MORE, QUICKLY_READ = 60, 60.0
METADATA = "/var/lib/stoker/state/metadata"
PODS = ("native", "overlay", "fuse")


@dataclass
class Readers:
    """One pod for each kind of mount, and its expected content."""

    world: World
    home: Home
    nodes: list[str]
    buckets: dict[str, Bucket]

    def start(self) -> None:
        """Start the pods. Wait until each has the mount of its name."""
        for name, dataset, node in (("native", "warm", 0), ("overlay", "cold", 0), ("fuse", "cold", 1)):
            pod = manifests.pod(self.home.namespace, name, f"{dataset}:/data", READ, scheduling="None")
            pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": self.nodes[node]}
            self.world.apply(pod)
        for name in PODS:
            self.world.wait("pod", name, self.home.namespace, lambda it: it["status"].get("phase") == "Running")
            self.world.wait("nodecache", self.nodes[name == "fuse"], "", partial(self.has_its_mode, name))

    def has_its_mode(self, pod: str, cache: Object) -> bool:
        """Return True if the pod has the mount of its name."""
        return self.modes_in(cache).get(pod) == pod

    def modes_in(self, cache: Object) -> dict[str, str]:
        """Return the mount modes of these pods, from a NodeCache."""
        rows = cache.get("status", {}).get("mounts", [])
        return {row["pod"]: row.get("mode", "") for row in rows if row["podNamespace"] == self.home.namespace}

    def check(self, after: str) -> None:
        """Fail unless every pod runs, has a row in status.mounts, and reads."""
        told: dict[str, str] = {}
        for node in self.nodes:
            told |= self.modes_in(self.world.get("nodecache", node))
        pods = {name: self.world.get("pod", name, self.home.namespace)["status"] for name in PODS}
        restarts = sum(pod["containerStatuses"][0]["restartCount"] for pod in pods.values())
        datasets = {name: self.world.get("dataset", name, self.home.namespace) for name in self.buckets}
        deleted = [name for name, it in datasets.items() if not it or it["metadata"].get("deletionTimestamp")]
        seen = (sorted(told), [pod["phase"] for pod in pods.values()], restarts, deleted)
        assert seen == (sorted(PODS), ["Running"] * 3, 0, []), f"{after}: {seen}\n{self.story()}"
        before = {name: len(self.lines(name)) for name in PODS}
        for name in PODS:
            wait_for(f"reads of {name} {after}", partial(self.has_read, name, before[name] + MORE), QUICKLY_READ)

    def has_read(self, pod: str, lines: int) -> bool:
        """Return True if a pod has printed more than ``lines`` lines."""
        return len(self.lines(pod)) > lines

    def lines(self, pod: str) -> list[str]:
        """Return the lines of a pod's log."""
        return self.world.logs(pod, self.home.namespace).splitlines()

    def stop(self) -> None:
        """Stop all pods."""
        for name in PODS:
            self.world.kubectl("exec", name, "-n", self.home.namespace, "--", "touch", "/tmp/done")
        for name in PODS:
            self.world.finished(name, self.home.namespace)

    def wrong(self, pod: str, bucket: Bucket) -> list[tuple[str, str]]:
        """Return wrong digests and failed reads of a pod."""
        digests = manifests.sums("\n".join(line.replace("failed ", "failed  ") for line in self.digests(pod)))
        return sorted(digests.items() - bucket.sums().items())

    def digests(self, pod: str) -> list[str]:
        """Return the pod's lines with digests."""
        return [line for line in self.lines(pod) if " " in line]

    def longest_gap(self, pod: str) -> float:
        """Return the longest time between two of its reads, in seconds."""
        times = [float(line) for line in self.lines(pod) if " " not in line]
        return max(later - earlier for earlier, later in pairwise(times))

    def story(self) -> str:
        """Return the nodes' mounts, and the last lines of the logs of sidecars and operators."""
        parts = []
        for node in self.nodes:
            rows = run(*self.world.cluster.node(node).entry(), "cat", "/proc/self/mountinfo", check=False).splitlines()
            parts += [f"--- mounts of {node}", *[row for row in rows if "kubernetes.io~csi" in row or "stoker" in row]]
        for component in ("sidecar", "operator"):
            for pod in self.world.system_pods(component):
                name = pod["metadata"]["name"]
                parts += [f"--- {name} ({pod['spec']['containers'][0]['image']})"]
                parts += [self.world.kubectl("logs", name, "-n", SYSTEM, "--tail=40")]
        return "\n".join(parts)


@pytest.fixture
def previous(world: World) -> Iterator[str]:
    """Install the previous release, and disable overlays on the second node. Yield the Helm revision."""
    second = world.cluster.nodes[1]
    inside = world.cluster.node(second).entry()
    try:
        # A file in place of the folder of metadata layers makes both releases find that overlays fail here.
        run(*inside, "sh", "-c", f"rm -rf {METADATA} && touch {METADATA}")
        world.helm_install_previous(SURGE)
        yield world.helm_revision()
    finally:
        run(*inside, "rm", "-rf", METADATA)
        world.helm_install(SURGE)


def test_an_upgrade_and_a_rollback_fail_no_read_and_lose_no_mount_and_no_dataset(
    world: World, home: Home, previous: str
) -> None:
    warm, cold = home.bucket("-warm"), home.bucket("-cold")
    warm.put(files(WARM, SIZE, seed=2))
    cold.put(files(COLD, SIZE))
    home.dataset("warm", warm, cache={"replicas": "all"})
    # A quota keeps it incomplete. Otherwise readahead would fetch all of it, and its mounts would turn native.
    home.dataset("cold", cold, cache={"replicas": 0, "quota": "3Mi"}, warm={"policy": "OnDemand"})
    home.ready("warm")
    home.until("cold", lambda it: it.get("status", {}).get("files") == COLD)
    uids = {name: world.get("dataset", name, home.namespace)["metadata"]["uid"] for name in ("warm", "cold")}
    readers = Readers(world, home, world.cluster.nodes[:2], {"warm": warm, "cold": cold})
    readers.start()

    world.helm_install(SURGE)
    readers.check("after the upgrade")
    world.helm_rollback(previous)
    readers.check("after the rollback")

    readers.stop()
    for pod in PODS:
        bucket = warm if pod == "native" else cold
        wrong, gap = readers.wrong(pod, bucket), readers.longest_gap(pod)
        seen = f"{pod} waited {gap:.1f} s, and read wrong: {wrong[:5]}"
        assert (wrong, gap < LONGEST_GAP) == ([], True), f"{seen}\n{readers.story()}"
    assert uids == {name: world.get("dataset", name, home.namespace)["metadata"]["uid"] for name in uids}
