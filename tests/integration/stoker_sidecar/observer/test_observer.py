"""The real observer on the real kernel: its view of native and overlay mounts, its rights, and its cost."""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_workload import Attribution, EvidenceSource
from stoker_sidecar.agent.observation.marked_tree import MarkedTree, sample_folders
from stoker_sidecar.helpers.observer.watched_tree import open_tree
from stoker_sidecar.linux import fanotify
from stoker_sidecar.linux.mounts import overlay
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Manifest
from tests.fakes.volumes import UID, node_dataset
from tests.support.csi_driver import node_folder, write_version
from tests.support.observed_node import ObservedNode, observed_node

pytestmark = pytest.mark.root
MANY = {f"train/n{number % 20:02}/{number}.jpg": b"x" for number in range(400)}
ODD = {"train/a\nb": b"1", "train/\u65e5\u672c \\ x": b"2", "train/" + "n" * 255: b"3"}


def read_all(folder: Path) -> int:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for path in files:
        path.read_bytes()
    return len(files)


@pytest.mark.parametrize("mode", [MountMode.NATIVE, MountMode.OVERLAY])
async def test_what_a_pod_opens_is_counted(mode: MountMode) -> None:
    async with observed_node(mode, MANY) as node:
        node.start_observer(cpu="1")
        await node.until_seen()
        before = node.counts.opens
        await asyncio.to_thread(read_all, node.seen)
        await node.until(lambda: node.counts.opens >= before + len(MANY))
        (row,) = node.observation.workloads.rows()
        assert (row.pod, row.datasets) == ("vision/trainer-0", ("vision/imagenet",))
        assert (row.source, row.attribution) == (EvidenceSource.FANOTIFY, Attribution.ONLY_POD)


@pytest.mark.parametrize("mode", [MountMode.NATIVE, MountMode.OVERLAY])
async def test_a_pod_that_reads_shuffled_files_is_seen_to_train_and_then_to_validate(mode: MountMode) -> None:
    training = {f"train/{number}.jpg": b"x" for number in range(400)}
    async with observed_node(mode, training | {f"val/{number}.jpg": b"x" for number in range(100)}) as node:
        node.start_observer(cpu="1")
        await node.until_seen()
        paths = [node.seen / path for path in training]
        random.Random(1).shuffle(paths)
        await asyncio.to_thread(read_slowly, paths)
        await until_phase(node, "Training")
        await asyncio.to_thread(read_slowly, sorted((node.seen / "val").iterdir()))
        await until_phase(node, "Validation")
        (row,) = node.observation.rows
        assert (row.source, row.splits) == (EvidenceSource.FANOTIFY, ("train", "validation"))


def read_slowly(paths: Sequence[Path]) -> None:
    """Read as a loader with work between its batches does: the kernel's queue is not full."""
    for number, path in enumerate(paths):
        path.read_bytes()
        if number % 8 == 0:
            time.sleep(0.02)


async def until_phase(node: ObservedNode, phase: str) -> None:
    deadline = time.monotonic() + 30
    while phase not in [row.phase for row in node.observation.rows]:
        assert time.monotonic() < deadline, node.observation.rows
        await node.observation.look()
        await asyncio.sleep(0.1)


@contextmanager
def marked(folder: Path, files: dict[str, bytes]) -> Iterator[tuple[MarkedTree, Path]]:
    info = write_version(folder / "cache", files)
    paths = VersionPaths(folder / "cache" / "datasets" / UID / "versions" / info.digest)
    tree = MarkedTree(paths.root, paths.tree, sample_folders(paths))
    yield tree, paths.folder
    tree.close()


def test_each_open_is_told_by_the_inode_of_the_manifest_whatever_its_name() -> None:
    with node_folder() as folder, marked(folder, ODD) as (tree, version):
        watched = open_tree(1, str(VersionPaths(version).manifest), tree.share, os.dup(tree.group), os.dup(tree.table))
        tree.put_on()
        watched.begin(lambda: 1.0)
        read_all(version / "tree")
        assert watched.look(2.0, most=100) == len(ODD)
        (batch,) = watched.report(2.0)
        manifest = Manifest.open(VersionPaths(version).manifest)
        assert [manifest.path(row.ino) for row in batch.rows] == sorted(ODD)
        assert (batch.opens, batch.share) == (len(ODD), 1.0)
        manifest.close()
        watched.close()


def test_without_marks_nothing_is_queued() -> None:
    with node_folder() as folder, marked(folder, MANY) as (tree, version):
        tree.put_on()
        tree.take_off()
        read_all(version / "tree")
        assert fanotify.drain(tree.group, most=10).opened == []


def test_a_queue_that_overflows_is_told_and_its_events_count_for_nothing() -> None:
    most = int(Path("/proc/sys/fs/fanotify/max_queued_events").read_text())
    with node_folder() as folder, marked(folder, MANY) as (tree, version):
        watched = open_tree(1, str(VersionPaths(version).manifest), tree.share, os.dup(tree.group), os.dup(tree.table))
        tree.put_on()
        watched.begin(lambda: 1.0)
        names = [str(path) for path in (version / "tree").rglob("*.jpg")]
        # Equal events of one process are merged: each of these differs from the queued ones by its PID.
        script = "import sys\nfor name in sys.argv[1:]:\n open(name).close()"
        for _ in range(most // len(names) + 1):
            subprocess.run([sys.executable, "-S", "-I", "-c", script, *names], check=True)
        watched.look(2.0, most=10 * most)
        (batch,) = watched.report(2.0)
        assert (batch.opens, batch.lost, batch.share, batch.until - batch.since) == (0, 1, 0.0, 0.0)
        watched.close()


async def test_a_dataset_that_is_not_to_be_looked_at_is_not_marked() -> None:
    async with observed_node(files=MANY) as node:
        node.start_observer(cpu="1")
        await node.until_seen()
        watching = node.observation.watching
        plan = node_dataset(version=node.record.version, observe="Off")
        node.plan.datasets, node.plan.unobserved = (plan,), frozenset({UID})
        node.plan.changes.mark()
        await node.until(lambda: watching.watch_of(1) is None)
        seen = node.counts
        read_all(node.seen)
        assert node.counts == seen


async def test_an_overlay_that_is_mounted_anew_is_watched_anew() -> None:
    async with observed_node(MountMode.OVERLAY, MANY) as node:
        node.start_observer(cpu="1")
        await node.until_seen()
        node.mount_anew()
        before = node.counts.opens

        def sees() -> bool:
            node.plan.changes.mark()
            read_all(node.seen)
            return node.counts.opens > before + len(MANY)

        await node.until(sees, seconds=60)


async def test_an_overlay_whose_names_were_forgotten_is_still_watched() -> None:
    async with observed_node(MountMode.OVERLAY, MANY) as node:
        node.start_observer(cpu="1")
        await node.until_seen()
        overlay.forget_names(node.seen)
        before = node.counts.opens

        def sees() -> bool:
            read_all(node.seen)
            return node.counts.opens > before + len(MANY)

        await node.until(sees)


@pytest.mark.expected_logs("disconnected")
async def test_another_observer_goes_on_where_one_was_killed() -> None:
    async with observed_node(files=MANY) as node:
        node.start_observer(cpu="1")
        await node.until_seen()
        node.end_observers()
        before = node.counts.opens
        node.start_observer(cpu="1")

        def sees() -> bool:
            read_all(node.seen)
            return node.counts.opens > before

        await node.until(sees)


_FLOOD = """
import itertools, os, sys, time
names = itertools.cycle(sys.stdin.read().splitlines())
rate, told = float(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
begun, count = time.monotonic(), 0
while True:
    for name in itertools.islice(names, 100):
        os.close(os.open(name, os.O_RDONLY))
    count += 100
    os.pwrite(told, b"%d" % count, 0)
    time.sleep(max(0.0, begun + count / rate - time.monotonic()))
"""


@contextmanager
def flood(node: ObservedNode, rate: float) -> Iterator[Callable[[], int]]:
    """Open the node's files at this rate per second at most. Yield a function that counts the opened ones."""
    told = node.folder / "opened"
    told.write_text("0")
    command = [sys.executable, "-c", _FLOOD, str(rate), str(told)]
    names = "\n".join(str(path) for path in node.seen.rglob("*.jpg"))
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(names.encode())
        process.stdin.close()
        try:
            yield lambda: int(told.read_text())
        finally:
            process.kill()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


async def test_a_flood_of_opens_costs_the_budget_and_no_more() -> None:
    rate = 0.02
    async with observed_node(files={f"train/n{number % 20:02}/{number}.jpg": b"" for number in range(6000)}) as node:
        observer = node.start_observer(cpu=str(rate))
        await node.until_seen()
        before, begun = cpu_seconds(observer.pid), time.monotonic()
        with flood(node, rate=1e9) as opened:
            await node.until(lambda: time.monotonic() - begun > 8.0 and opened() > 0)
        # In addition to the budget: savings from before, one look beyond it, and the clock ticks of the measurement.
        assert cpu_seconds(observer.pid) - before <= rate * (time.monotonic() - begun) + 5 * rate + 0.1


async def test_of_a_flood_a_sample_is_seen_that_tells_how_much_it_is() -> None:
    # Equal queued events are merged: more files than are opened between two looks, within the queue's size.
    async with observed_node(files={f"train/n{number % 20:02}/{number}.jpg": b"" for number in range(16_000)}) as node:
        node.start_observer(cpu="0.02")
        await node.until_seen()
        before = node.counts.opens
        with flood(node, rate=40_000) as opened:
            # Files opened since the last spell are reported with the next one, a few seconds later.
            await node.until(lambda: opened() > 200_000 and node.counts.opens - before > opened() / 3, seconds=60)
            assert node.counts.opens - before < opened() * 3
        (row,) = node.observation.workloads.rows()
        assert row.sampled is not None
        assert row.sampled < 0.9


async def test_an_idle_observer_uses_next_to_nothing() -> None:
    async with observed_node(files=MANY) as node:
        observer = node.start_observer()
        await node.until_seen()
        node.plan.observed = False
        node.plan.changes.mark()
        await node.until(lambda: node.observation.watching.watch_of(1) is None)
        spent = list[float]()
        while len(spent) < 3 and min(spent, default=1.0) > 0.03:  # it may still end its last look
            before = cpu_seconds(observer.pid)
            await asyncio.get_running_loop().run_in_executor(None, observer_waits, observer)
            spent.append(cpu_seconds(observer.pid) - before)
        assert min(spent) <= 0.03


def observer_waits(observer: "subprocess.Popen[bytes]") -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        observer.wait(5.0)


def test_the_kernel_reports_what_is_opened_here(tmp_path: Path) -> None:
    assert fanotify.why_not(tmp_path) == ""
