"""The harness itself: two parallel clusters are separate, and a killed one leaves no traces."""

import contextlib
import os
import signal
from pathlib import Path

from e2e.cluster import Cluster
from e2e.cluster.processes import owned_by, run
from e2e.support.world import World


def traces(cluster: Cluster) -> list[str]:
    """List the remaining processes, mounts and folders of a cluster."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"/{cluster.name}/" in line]
    processes = [str(owned) for owned in owned_by(cluster.name)]
    folders = [str(path) for path in (cluster.paths.state, cluster.paths.data) if path.exists()]
    return [*mounts, *processes, *folders]


def test_a_second_cluster_runs_beside_the_first_and_a_killed_one_starts_anew(world: World, six: World) -> None:
    twin = six.cluster
    assert twin.slot.host_address != world.cluster.slot.host_address
    for made in (world, six):
        assert len(made.items("nodes")) == 2
    for owned in owned_by(twin.name):
        with contextlib.suppress(ProcessLookupError):  # a node's processes end with its first process
            os.kill(owned.pid, signal.SIGKILL)
    twin.up(1)
    assert twin.kubectl("get", "nodes", "-o", "name").split() == ["node/node-1"]
    assert "Ready" in twin.kubectl("get", "nodes")
    slot = twin.slot
    twin.down()
    assert traces(twin) == []
    assert str(slot.host_address) not in run("ip", "-brief", "address")
    assert len(world.items("nodes")) == 2
