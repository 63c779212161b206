"""The harness itself: two clusters side by side never meet, and one that was killed leaves nothing behind."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster import Cluster
from e2e.cluster.processes import owned_by, run
from e2e.support.world import World


@pytest.fixture
def twin() -> Iterator[Cluster]:
    cluster = Cluster("twin", print)
    yield cluster
    cluster.down()


def traces(cluster: Cluster) -> list[str]:
    """List the processes, mounts and folders that a cluster has left."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"/{cluster.name}/" in line]
    processes = [str(owned) for owned in owned_by(cluster.name)]
    folders = [str(path) for path in (cluster.paths.state, cluster.paths.data) if path.exists()]
    return [*mounts, *processes, *folders]


def test_a_second_cluster_runs_beside_the_first_and_a_killed_one_starts_anew(world: World, twin: Cluster) -> None:
    twin.up(1)
    assert twin.slot.host_address != world.cluster.slot.host_address
    assert twin.kubectl("get", "nodes", "-o", "name").split() == ["node/node-1"]
    assert len(world.items("nodes")) == 2
    for owned in owned_by(twin.name):
        with contextlib.suppress(ProcessLookupError):  # a node's other processes die with its first
            os.kill(owned.pid, signal.SIGKILL)
    twin.up(1)
    assert "Ready" in twin.kubectl("get", "nodes")
    slot = twin.slot
    twin.down()
    assert traces(twin) == []
    assert str(slot.host_address) not in run("ip", "-brief", "address")
    assert len(world.items("nodes")) == 2
