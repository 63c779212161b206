"""FUSE servers' reports of reads, and a workload's waits for data, compared with its own measurement."""

import asyncio
import json
import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from stoker_api.node_caches.node_workload import EvidenceSource, StallSource
from stoker_sidecar.agent.core.stall import Stall, StallSample
from stoker_sidecar.agent.observation.loaders.stall_meter import StallMeter
from stoker_sidecar.volumes.core.publish import VersionKey
from tests.support.fuse_node import FuseNode, fuse_node
from tests.support.keeper import UID
from tests.support.pod_cgroups import cgroup_root, pod_cgroup
from tests.support.waiting import eventually

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]  # 30 s for 60 slow files, more on a busy machine
_SLOW = 0.25  # seconds of the source per piece
_POD = "uid-stalled"  # no UID of another module: its cgroup identifies it, and modules run in parallel
FILES = {f"train/{number:03}.bin": bytes([number % 256]) * 4096 for number in range(60)}


async def test_opens_and_reads_of_a_fuse_mount_are_counted_exactly(tmp_path: Path) -> None:
    async with fuse_node(tmp_path, FILES, _SLOW) as node:
        names = [node.seen / path for path in sorted(FILES)][:8]

        def read() -> None:
            for name in names:
                name.read_bytes()

        first = names[0]

        def counts() -> bool:
            first.stat()
            os.close(os.open(first, os.O_RDONLY))
            return node.counts.opens > 0

        await eventually(counts, seconds=30)
        client = node.observation.workloads
        await asyncio.to_thread(read)
        await eventually(lambda: node.counts.reads >= len(names), seconds=30)
        assert (node.counts.reads, node.counts.bytes) == (len(names), len(names) * 4096)
        (row,) = client.rows()
        assert (row.pod, row.source, row.sampled) == ("vision/trainer-0", EvidenceSource.FUSE, 1.0)


async def test_a_pod_that_reads_shuffled_files_of_a_fuse_mount_is_seen_to_train(tmp_path: Path) -> None:
    async with fuse_node(tmp_path, FILES, _SLOW) as node:
        names = [node.seen / path for path in FILES]
        random.Random(1).shuffle(names)
        workloads = node.observation.workloads

        def follows() -> bool:
            os.close(os.open(names[0], os.O_RDONLY))
            return [row.phase for row in workloads.rows()] == ["Initialization"] and node.counts.opens > 0

        await eventually(follows, seconds=30)
        for name in names[1:40]:
            await asyncio.to_thread(name.read_bytes)
        await eventually(lambda: [row.phase for row in workloads.rows()] == ["Training"], seconds=30)
        (row,) = workloads.rows()
        assert (row.source, row.epoch, row.splits) == (EvidenceSource.FUSE, 0, ("train",))


async def test_a_dataset_that_is_not_to_be_looked_at_is_not_counted(tmp_path: Path) -> None:
    async with fuse_node(tmp_path, FILES, _SLOW) as node:
        node.plan.unobserved = frozenset({UID})
        node.plan.changes.mark()
        first = node.seen / sorted(FILES)[0]
        await asyncio.to_thread(first.read_bytes)
        node.plan.unobserved = frozenset()
        node.plan.changes.mark()

        def counts() -> bool:
            os.close(os.open(first, os.O_RDONLY))
            return node.counts.opens > 0

        await eventually(counts, seconds=30)
        assert node.counts.reads == 0


# Reads each file once and works after it, as a data loader does. Then it prints the start and end of its waits. On a
# busy machine it learns late that its bytes have arrived: a wait for a CPU is not a stall.
_LOADER = """
import json, os, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # pressure is a mean over CPUs
names, work = sys.argv[2:], float(sys.argv[1])
def waited_for_cpu():
    return int(open("/proc/thread-self/schedstat").read().split()[1]) / 1e9
rows = []
for name in names:
    delay, before = waited_for_cpu(), time.monotonic()
    open(name, "rb").read()
    after = time.monotonic()
    rows.append((before, after - (waited_for_cpu() - delay)))
    while time.monotonic() < after + work:
        pass
print(json.dumps(rows), flush=True)
"""


@pytest.mark.parametrize("source", [StallSource.PRESSURE, StallSource.FUSE])
async def test_a_stall_is_what_the_loader_measures_itself(source: StallSource, tmp_path: Path) -> None:
    async with fuse_node(tmp_path, FILES, _SLOW) as node:
        first = str(node.seen / sorted(FILES)[0])

        def counts() -> bool:
            os.close(os.open(first, os.O_RDONLY))
            return node.counts.opens > 0

        await eventually(counts, seconds=30)
        with pod_cgroup(_POD) as group:
            names = [str(node.seen / path) for path in sorted(FILES)[1:]]
            loader = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _LOADER, str(_SLOW), *names, stdout=asyncio.subprocess.PIPE
            )
            (group / "cgroup.procs").write_text(str(loader.pid))
            pods = {_POD: None if source is StallSource.PRESSURE else (UID, node.version.info.digest)}
            before, after, seen = await _two_samples(StallMeter(cgroup_root()), node, pods)
            rows = json.loads((await loader.communicate())[0])
        own = _waited(rows, before.at, after.at) / (after.at - before.at)
        assert seen.source is source
        print(f"seen {seen.share:.1%}, by its own measurement {own:.1%}")
        assert abs(seen.share - own) <= 0.05


async def _two_samples(
    meter: StallMeter, node: FuseNode, pods: Mapping[str, VersionKey | None]
) -> tuple[StallSample, StallSample, Stall]:
    """Measure while the loader reads its files, from one fifth of them to four fifths."""
    workloads, uid = node.observation.workloads, _POD
    await eventually(lambda: node.counts.reads > len(FILES) / 5, seconds=60)
    meter.measure(pods, dict(workloads.waited))
    before = meter.samples[uid]
    await eventually(lambda: node.counts.reads > 4 * len(FILES) / 5, seconds=60)
    stalls = meter.measure(pods, dict(workloads.waited))
    return before, meter.samples[uid], stalls[uid]


def _waited(rows: list[tuple[float, float]], since: float, until: float) -> float:
    """Return the loader's wait in that time."""
    return sum(max(0.0, min(after, until) - max(before, since)) for before, after in rows)
