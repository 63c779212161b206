"""Real training on real mounts: what the node knows, live, against what the program logs."""

import random
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench.truth import content
from stoker_api.dataset import MountMode
from stoker_api.nodecache import NodeWorkload
from stoker_sidecar.agent.observation import Observation
from tests.support.fuse_node import fuse_node
from tests.support.live_truth import PYTHON, LiveVerdict, run_program
from tests.support.observed_node import observed_node
from tests.support.waiting import eventually

_FIND = "import sys; from importlib.util import find_spec; sys.exit(not (find_spec('PIL') and find_spec('torch')))"
_HAS_TORCH = subprocess.run([PYTHON, "-c", _FIND], check=False).returncode == 0
pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not _HAS_TORCH, reason="Debian's PyTorch is not installed: tools/install-clients.sh"),
]
# What a busy machine leaves of the 95 % of docs/TRAINING-AWARENESS.md: its loaders take long to start their workers.
_RIGHT = 0.85
MODES = [MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE]


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@asynccontextmanager
async def mounted(mode: MountMode, files: Mapping[str, bytes], folder: Path) -> AsyncIterator[tuple[Path, Observation]]:
    """Mount a version for a pod; yields what the pod sees, once its reads would be seen, and what sees them."""
    if mode is MountMode.FUSE:
        async with fuse_node(folder, files, delay=0.0) as cold:
            await eventually(lambda: bool(cold.observation.workloads.rows()), 30)
            yield cold.seen, cold.observation
        return
    async with observed_node(mode, files) as node:
        node.start_observer(cpu="0.01")
        await node.until_seen()
        yield node.seen, node.observation


async def trained(mode: MountMode, program: str, files: Mapping[str, bytes], folder: Path) -> LiveVerdict:
    async with mounted(mode, files, folder) as (seen, observation):

        def row() -> NodeWorkload | None:
            return next(iter(observation.workloads.rows()), None)

        return await run_program(program, seen, folder, row, EPOCHS="2")


@pytest.mark.parametrize("mode", MODES)
async def test_phases_and_epochs_of_pytorch_are_known_while_it_trains(mode: MountMode, tmp_path: Path) -> None:
    content.images(tmp_path / "made", random.Random(5))
    verdict = await trained(mode, "imagefolder.py", files_of(tmp_path / "made"), tmp_path)
    print(f"imagefolder, {mode}: {verdict}")
    assert verdict.phases >= _RIGHT
    assert verdict.epochs >= _RIGHT
    assert (verdict.missed, verdict.slowest <= 10.0) == (0, True)


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_that_loads_a_model_is_known(mode: MountMode, tmp_path: Path) -> None:
    content.model(tmp_path / "made", random.Random(5))
    verdict = await trained(mode, "inference.py", files_of(tmp_path / "made"), tmp_path)
    print(f"inference, {mode}: {verdict}")
    assert verdict.phases >= _RIGHT
    assert (verdict.missed, verdict.slowest <= 10.0) == (0, True)
