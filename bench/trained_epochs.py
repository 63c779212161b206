"""Epochs of PyTorch's own DataLoader with a step of computing a batch: what an epoch's first batch takes longer."""

import json
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.memory_limit import MemoryLimit
from bench.trainer import IMAGES_A_BATCH, SLOWER_STEP_SECONDS, STEP_SECONDS
from bench.truth.programs import DEBIANS_PYTHON, FOLDER

LOADERS, _EPOCHS = 4, 4
_PROGRAM_SECONDS = 600.0


@dataclass(frozen=True)
class Accelerator:
    """What computes between batches: ``batch`` files a step of ``step`` seconds. ``says``: what it is, for people."""

    says: str
    batch: int
    step: float

    @property
    def case(self) -> str:
        """The case's name in tables."""
        return f"{self.batch} files a step of {1000 * self.step:.0f} ms"


# ResNet-50 by accelerators of two classes: by our own, and by MLPerf Storage's file for it (resnet50_a100.yaml).
ACCELERATORS = (
    Accelerator("H100 class", IMAGES_A_BATCH, STEP_SECONDS),
    Accelerator("A100 class", IMAGES_A_BATCH, SLOWER_STEP_SECONDS),
)


@dataclass(frozen=True)
class LaterEpochs:
    """The second and later epochs of one run.

    ``first``: seconds of their first batches, the median; ``middle``: of all others. ``there``: which percent of the
    first batches' files was in memory when they were opened, and ``middle_there`` of the others'.
    """

    first: float
    middle: float
    there: float
    middle_there: float

    @property
    def ratio(self) -> float:
        """The first batch's time, x a middle one's."""
        return self.first / self.middle


def later_epochs(epochs: Sequence[Sequence[tuple[float, float]]]) -> LaterEpochs:
    """Sum epochs up: of each batch the seconds, and the share of its files in memory. Pure.

    Raises ValueError for fewer than two epochs of two batches.
    """
    later = epochs[1:]
    if not later or any(len(epoch) < 2 for epoch in later):
        raise ValueError("there have to be two epochs of two batches at least")
    firsts = [epoch[0] for epoch in later]
    others = [batch for epoch in later for batch in epoch[1:]]
    return LaterEpochs(
        statistics.median(seconds for seconds, _ in firsts),
        statistics.median(seconds for seconds, _ in others),
        100 * statistics.mean(there for _, there in firsts),
        100 * statistics.mean(there for _, there in others),
    )


def train_epochs(
    root: Path, files: Sequence[str], seed: int, accelerator: Accelerator, limit: MemoryLimit | None
) -> LaterEpochs:
    """Train some epochs on the files below ``root``; ``limit`` None: with all memory. Raises BenchError."""
    job: dict[str, Any] = {"root": str(root), "files": list(files), "seed": seed, "epochs": _EPOCHS}
    job |= {"batch": accelerator.batch, "loaders": LOADERS, "step": accelerator.step}
    command = [str(DEBIANS_PYTHON), str(FOLDER / "torch_batches.py")]
    ended = subprocess.run(
        limit.command(command) if limit is not None else command,
        input=json.dumps(job) + "\n",
        capture_output=True,
        text=True,
        timeout=_PROGRAM_SECONDS,
        check=False,
    )
    if ended.returncode:
        raise BenchError(f"the program with PyTorch failed: {ended.stderr[-500:]}")
    return later_epochs(list(_epochs(json.loads(ended.stdout))))


def _epochs(found: Sequence[Sequence[Sequence[float]]]) -> Iterator[list[tuple[float, float]]]:
    for epoch in found:
        yield [(seconds, there) for seconds, there in epoch]
