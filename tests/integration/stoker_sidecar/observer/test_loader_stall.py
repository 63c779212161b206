"""The stall of real data loaders with worker processes, compared with the programs' own measurements."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from stoker_api.node_caches.node_workload import StallSource
from stoker_sidecar.agent.observation.loaders.loader_consumers import PodConsumers
from stoker_sidecar.agent.observation.loaders.loader_sampler import BUDGET, LoaderSampler
from stoker_sidecar.agent.observation.loaders.loader_waits import stall_of
from tests.support.cpu_speed import STARVED, waited_for_cpus
from tests.support.fuse_node import fuse_node
from tests.support.loader_programs import LoaderProgram, loader_program, pytorch_loader
from tests.support.pod_cgroups import pod_cgroup
from tests.support.pythons import DEBIANS_PYTHON
from tests.support.waiting import eventually, wait_until

_HAS_TORCH = subprocess.run([DEBIANS_PYTHON, "-c", "import torch"], check=False, capture_output=True).returncode == 0
pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]
needs_torch = pytest.mark.skipif(not _HAS_TORCH, reason="Debian's PyTorch is not installed: tools/install-clients.sh")
# Quiet machines are within 5 points (docs/concepts/training-awareness.md). CI machines are busy.
_POINTS = 0.10
_SECONDS, _WINDOWS = 8.0, 3


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(400):
        (folder / f"{number:03}.bin").write_bytes(bytes(4096))
    return folder


def often() -> LoaderSampler:
    """Take as many samples in these seconds as a node takes in a minute."""
    return LoaderSampler(rate=60.0, budget=0.5)


def programs_in_pods(stack: ExitStack, folder: Path, commands: Mapping[str, Sequence[str]]) -> dict[str, LoaderProgram]:
    """Run programs, each in the pod of its name. ``{out}`` in a command is the file for its waits."""
    found = {}
    for uid, command in commands.items():
        out = folder / f"{uid}.waits"
        words = [word.format(out=out) for word in command]
        found[uid] = stack.enter_context(loader_program(stack.enter_context(pod_cgroup(uid)), out, words))
    return found


def measured(programs: Mapping[str, LoaderProgram]) -> dict[str, tuple[float, float]]:
    """Sample programs for some seconds. Return the stall of each, from the sampler and from the program."""
    sampler, since = often(), time.monotonic()
    heard = since

    def over() -> bool:
        nonlocal heard
        now = time.monotonic()
        if now >= heard:
            sampler.watch({uid: program.workers() for uid, program in programs.items()})
            heard = now + 1.0
        return now > since + _SECONDS and len(sampler.stalls) == len(programs)

    try:
        wait_until(over, 3 * _SECONDS)
        stalls, until = sampler.stalls, time.monotonic()
    finally:
        sampler.stop()
    assert {stall.source for stall in stalls.values()} == {StallSource.CONSUMER}
    return {uid: (stalls[uid].share, program.stall(since, until)) for uid, program in programs.items()}


def assert_close(programs: Mapping[str, LoaderProgram], what: str) -> None:
    """Check that both agree. Use another window if this one had no CPU to take samples on time."""
    for left in reversed(range(_WINDOWS)):
        before, since = waited_for_cpus(), time.monotonic()
        told = measured(programs)
        starved = (waited_for_cpus() - before) / (time.monotonic() - since)
        for uid, (seen, own) in told.items():
            print(f"{what}, {uid}: sampled {seen:.1%}, by its own measurement {own:.1%}")
        print(f"somebody waited for a CPU for {starved:.0%} of the time")
        far = {uid for uid, (seen, own) in told.items() if abs(seen - own) > _POINTS}
        if not (far and left and starved > STARVED):
            break
    assert far == set()


@needs_torch
def test_the_stall_of_pytorchs_loader_is_what_it_measures_itself(data: Path, tmp_path: Path) -> None:
    # Two workers deliver a batch of four files each 0.2 s. The step leaves the rest of it as wait time.
    def command(step: float, *words: str) -> list[str]:
        return pytorch_loader(data, Path("{out}"), "2", str(step), "120", "decode=0.1", *words)

    levels = {
        "uid-none": command(0.4),
        "uid-some-spin": command(0.14, "spin"),
        "uid-some-pin": command(0.14, "pin", "persistent"),
        "uid-much-pin": command(0.06, "pin"),
        "uid-much": command(0.06),
    }
    with ExitStack() as stack:
        assert_close(programs_in_pods(stack, tmp_path, levels), "DataLoader")


# A loader with Python's own queue: two processes read, and the main one takes from the pipe and works.
_QUEUE = """
import json, multiprocessing, sys, time
def read(queue):
    while True:
        time.sleep(0.1)
        queue.put(bytes(4096))
method, step = sys.argv[1], float(sys.argv[2])
if __name__ == "__main__":
    context = multiprocessing.get_context(method)
    queue = context.Queue(4)
    for _ in range(2):
        context.Process(target=read, args=(queue,), daemon=True).start()
    with open(sys.argv[3], "w", buffering=1) as out:
        while True:
            before = time.monotonic()
            queue.get()
            out.write(json.dumps([before, time.monotonic()]) + chr(10))
            time.sleep(step)
"""


def test_the_stall_of_a_loader_with_pythons_own_queue_is_what_it_measures_itself(tmp_path: Path) -> None:
    program = tmp_path / "queue_loader.py"
    program.write_text(_QUEUE)
    commands = {f"uid-{how}": [sys.executable, str(program), how, "0.03", "{out}"] for how in ("fork", "spawn")}
    with ExitStack() as stack:
        assert_close(programs_in_pods(stack, tmp_path, commands), "Queue")


# A launcher that waits for its processes, which read and compute alone.
_LAUNCHER = """
import json, multiprocessing, sys, time
from multiprocessing.connection import wait
def train(errors, out):
    with open(out, "a", buffering=1) as log:
        while True:
            log.write(json.dumps([time.monotonic(), time.monotonic()]) + chr(10))
            time.sleep(0.05)
errors = multiprocessing.SimpleQueue()
ranks = [multiprocessing.Process(target=train, args=(errors, sys.argv[1]), daemon=True) for _ in range(2)]
for rank in ranks:
    rank.start()
wait([rank.sentinel for rank in ranks])
"""


def test_a_launcher_of_processes_that_read_by_themselves_is_no_consumer(tmp_path: Path) -> None:
    with ExitStack() as stack:
        command = [sys.executable, "-c", _LAUNCHER, "{out}"]
        launcher = programs_in_pods(stack, tmp_path, {"uid-launched": command})["uid-launched"]
        pod = PodConsumers("uid-launched")
        pod.find(launcher.workers(), 0.0)
        for _ in range(100):
            pod.sample(0.0)
        pod.find(launcher.workers(), 0.0)
        assert len(pod) == 1  # it shares a queue with them
        assert stall_of(pod.tallies, 0.0) is None
        pod.close()


def test_of_a_process_in_another_pod_nothing_is_told(tmp_path: Path) -> None:
    program = tmp_path / "queue_loader.py"
    program.write_text(_QUEUE)
    with ExitStack() as stack:
        command = [sys.executable, str(program), "fork", "0.03", "{out}"]
        other = programs_in_pods(stack, tmp_path, {"uid-other": command})["uid-other"]
        own, foreign = PodConsumers("uid-other"), PodConsumers("uid-mine")
        for pod in (own, foreign):
            pod.find(other.workers(), 0.0)
        assert (len(own), len(foreign)) == (1, 0)
        own.close()


@needs_torch
async def test_on_a_cold_mount_the_node_tells_the_stall_of_a_loader_with_workers(tmp_path: Path) -> None:
    files = {f"train/{number:04}.bin": bytes([number % 256]) * 4096 for number in range(600)}
    out = tmp_path / "waits"
    async with fuse_node(tmp_path, files, 0.05, loaders=often()) as node:
        observation = node.observation
        await eventually(lambda: bool(observation.workloads.rows()), seconds=30)
        with ExitStack() as stack:
            group = stack.enter_context(pod_cgroup("uid-trainer-0"))
            command = pytorch_loader(node.seen / "train", out, "2", "0.07", "120")
            program = await asyncio.to_thread(stack.enter_context, loader_program(group, out, command))
            since = time.monotonic()
            await observation.look()
            looked = time.monotonic()

            async def told() -> bool:
                await observation.look()
                return observation.rows[0].stall_source is StallSource.CONSUMER

            deadline = since + 40
            while not (time.monotonic() > looked + _SECONDS and await told()):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.5)
            own, (row,) = program.stall(looked, time.monotonic()), observation.rows
        print(f"DataLoader on a cold FUSE mount: sampled {row.stall_percent} %, by its own measurement {own:.1%}")
        assert abs((row.stall_percent or 0) / 100 - own) <= _POINTS


def test_looking_at_ten_workloads_costs_its_budget_at_most(tmp_path: Path) -> None:
    program = tmp_path / "queue_loader.py"
    program.write_text(_QUEUE)
    command = [sys.executable, str(program), "fork", "0.03", "{out}"]
    with ExitStack() as stack:
        programs = programs_in_pods(stack, tmp_path, {f"uid-{number}": command for number in range(10)})
        sampler, since = LoaderSampler(), time.monotonic()
        sampler.watch({uid: one.workers() for uid, one in programs.items()})
        (thread,) = (one for one in threading.enumerate() if one.name == "loader-sampler")

        def spent() -> float:
            return int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0]) / 1e9

        # Within its budget a busy machine takes more samples later.
        wait_until(lambda: len(sampler.stalls) == 10 and time.monotonic() > since + _SECONDS, 100)
        share = spent() / (time.monotonic() - since)
        sampler.stop()
        print(f"ten workloads: {share:.2%} of a core")
        assert share <= BUDGET + 0.05 / _SECONDS
