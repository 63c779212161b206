"""Real training on real mounts: the node's live knowledge, compared with the programs' logs."""

import asyncio
import os
import random
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.agent.observation.observation import Observation
from tests.support import training_content as content
from tests.support.fuse_node import fuse_node
from tests.support.live_truth import LiveProgram, LiveVerdict, run_program
from tests.support.observed_node import observed_node
from tests.support.pod_cgroups import pod_cgroup
from tests.support.pythons import DEBIANS_PYTHON, OUR_PYTHON, TRAINERS_PYTHON
from tests.support.waiting import eventually

_FIND = "import sys; from importlib.util import find_spec; sys.exit(not (find_spec('PIL') and find_spec('torch')))"
_HAS_TORCH = subprocess.run([DEBIANS_PYTHON, "-c", _FIND], check=False).returncode == 0
_HAS_OTHERS = TRAINERS_PYTHON.exists() and find_spec("jax") is not None
pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not _HAS_TORCH, reason="Debian's PyTorch is not installed: tools/install-clients.sh"),
]
# Lower than the 95 % of recorded traces: on a busy machine, loaders start workers slowly.
_RIGHT = 0.85
_SWEEP_RIGHT = 0.75
_SWEEP = 4
# Seconds of a step, and of saving: shorter than in the programs, to save CI time. The results hold for longer ones too.
_STEP, _SAVING = os.environ.get("STEP", "0.14"), os.environ.get("SAVING", "0.2")
# fanotify sees reads on native and overlay mounts, and the server sees those on FUSE mounts.
MODES = [MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE]
SOURCES = [MountMode.NATIVE, MountMode.FUSE]


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@asynccontextmanager
async def mounted(
    mode: MountMode, files: Mapping[str, bytes], folder: Path, pods: Sequence[str]
) -> AsyncIterator[tuple[Path, Observation]]:
    """Mount a version for pods. Yield their paths, when their reads are observed, and the observer."""
    if mode is MountMode.FUSE:
        async with fuse_node(folder, files, 0.0, pods) as cold:
            await eventually(lambda: bool(cold.observation.workloads.rows()), 30)
            yield cold.seen, cold.observation
        return
    async with observed_node(mode, files, pods) as node:
        node.start_observer(cpu="0.01")
        await node.until_seen()
        yield node.seen, node.observation


async def trained(
    mode: MountMode, programs: Sequence[LiveProgram], files: Mapping[str, bytes], folder: Path, **environment: str
) -> list[LiveVerdict]:
    """Run programs in parallel, each in its pod, and compare the knowledge of each with the truth."""
    async with mounted(mode, files, folder, [one.pod for one in programs]) as (seen, observation):
        with ExitStack() as stack:
            placed = [replace(one, group=stack.enter_context(pod_cgroup(f"uid-{one.pod}"))) for one in programs]
            rows = observation.workloads.rows
            runs = (run_program(one, seen, folder, rows, **environment) for one in placed)
            return await asyncio.gather(*runs)


@pytest.mark.parametrize("mode", MODES)
async def test_phases_and_epochs_of_pytorch_are_known_while_it_trains(mode: MountMode, tmp_path: Path) -> None:
    content.images(tmp_path / "made", random.Random(5))
    files = files_of(tmp_path / "made")
    (verdict,) = await trained(mode, [LiveProgram("imagefolder.py")], files, tmp_path, EPOCHS="2")
    print(f"imagefolder, {mode}: {verdict}")
    assert verdict.phases >= _RIGHT
    assert verdict.epochs >= _RIGHT
    assert (verdict.missed, verdict.slowest <= 10.0) == (0, True)


@pytest.mark.parametrize("mode", SOURCES)
async def test_a_server_that_loads_a_model_is_known(mode: MountMode, tmp_path: Path) -> None:
    content.model(tmp_path / "made", random.Random(5))
    (verdict,) = await trained(mode, [LiveProgram("inference.py")], files_of(tmp_path / "made"), tmp_path)
    print(f"inference, {mode}: {verdict}")
    assert verdict.phases >= _RIGHT
    assert (verdict.missed, verdict.slowest <= 10.0) == (0, True)


@pytest.mark.skipif(not _HAS_OTHERS, reason="Trainer and JAX are not installed: tools/install-clients.sh")
@pytest.mark.parametrize("mode", SOURCES)
async def test_a_trainer_of_hugging_face_and_jax_are_known_beside_each_other(mode: MountMode, tmp_path: Path) -> None:
    content.images(tmp_path / "made", random.Random(5))
    programs = [
        LiveProgram("trainer.py", "trainer", TRAINERS_PYTHON),
        LiveProgram("jax_loop.py", "jax", OUR_PYTHON),
    ]
    files = files_of(tmp_path / "made")
    verdicts = await trained(mode, programs, files, tmp_path, EPOCHS="2", STEP=_STEP, SAVING=_SAVING)
    for program, verdict in zip(programs, verdicts, strict=True):
        print(f"{program.script}, {mode}: {verdict}")
    assert min(verdict.phases for verdict in verdicts) >= _RIGHT
    assert min(verdict.epochs for verdict in verdicts) >= _RIGHT
    assert [(verdict.missed, verdict.slowest <= 10.0) for verdict in verdicts] == [(0, True)] * 2


@pytest.mark.parametrize("mode", SOURCES)
async def test_a_sweep_of_four_pods_is_known_as_one(mode: MountMode, tmp_path: Path) -> None:
    content.images(tmp_path / "made", random.Random(5))
    sweep = [
        LiveProgram("imagefolder.py", f"sweep-{seed}", arguments=("HyperparamTuning", str(seed)))
        for seed in range(_SWEEP)
    ]
    files = files_of(tmp_path / "made")
    verdicts = await trained(mode, sweep, files, tmp_path, EPOCHS="2", STEP=_STEP, SAVING=_SAVING)
    for verdict in verdicts:
        print(f"sweep, {mode}: {verdict}")
    assert min(verdict.phases for verdict in verdicts) >= _SWEEP_RIGHT
    assert min(verdict.epochs for verdict in verdicts) >= _SWEEP_RIGHT
    assert max(verdict.slowest for verdict in verdicts) <= 10.0
