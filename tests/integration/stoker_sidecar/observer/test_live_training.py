"""Real training on real mounts: the node's live knowledge, compared with the programs' logs.

How exact it is depends on the load of the machine, so ``bench run phases`` measures that.
"""

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
# Nearly all of the time on an idle machine. The busiest run of CI had two thirds.
_KNOWN = 0.5
_SWEEP = 4
# Seconds of a step, and of saving: shorter than in the programs, to save CI time. The results hold for longer ones too.
_STEP, _SAVING = os.environ.get("STEP", "0.14"), os.environ.get("SAVING", "0.2")
# fanotify sees reads on native mounts, and the server sees those on FUSE mounts.
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


def check(mode: MountMode, verdicts: Sequence[LiveVerdict]) -> None:
    for verdict in verdicts:
        print(f"{mode}: {verdict}")
    assert min(verdict.phases for verdict in verdicts) >= _KNOWN
    assert min(verdict.epochs for verdict in verdicts) >= _KNOWN


@pytest.mark.parametrize("mode", SOURCES)
async def test_phases_and_epochs_of_pytorch_are_known_while_it_trains(mode: MountMode, tmp_path: Path) -> None:
    content.images(tmp_path / "made", random.Random(5))
    files = files_of(tmp_path / "made")
    check(mode, await trained(mode, [LiveProgram("imagefolder.py")], files, tmp_path, EPOCHS="2"))


@pytest.mark.parametrize("mode", SOURCES)
async def test_a_server_that_loads_a_model_is_known(mode: MountMode, tmp_path: Path) -> None:
    content.model(tmp_path / "made", random.Random(5))
    check(mode, await trained(mode, [LiveProgram("inference.py")], files_of(tmp_path / "made"), tmp_path))


@pytest.mark.skipif(not _HAS_OTHERS, reason="Trainer and JAX are not installed: tools/install-clients.sh")
async def test_a_trainer_of_hugging_face_and_jax_are_known_beside_each_other(tmp_path: Path) -> None:
    content.images(tmp_path / "made", random.Random(5))
    programs = [
        LiveProgram("trainer.py", "trainer", TRAINERS_PYTHON),
        LiveProgram("jax_loop.py", "jax", OUR_PYTHON),
    ]
    files = files_of(tmp_path / "made")
    mode = MountMode.NATIVE
    check(mode, await trained(mode, programs, files, tmp_path, EPOCHS="2", STEP=_STEP, SAVING=_SAVING))


async def test_a_sweep_of_four_pods_is_known_as_one(tmp_path: Path) -> None:
    content.images(tmp_path / "made", random.Random(5))
    sweep = [
        LiveProgram("imagefolder.py", f"sweep-{seed}", arguments=("HyperparamTuning", str(seed)))
        for seed in range(_SWEEP)
    ]
    files = files_of(tmp_path / "made")
    mode = MountMode.FUSE
    check(mode, await trained(mode, sweep, files, tmp_path, EPOCHS="2", STEP=_STEP, SAVING=_SAVING))
