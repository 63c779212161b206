"""A training program on a real mount, what its node knows of it at each moment, and how much of that is right."""

import asyncio
import itertools
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.truth.programs import FOLDER
from stoker_api.nodecache import NodeWorkload

# Debian's, which has PyTorch (tools/debian-packages.sh).
PYTHON = "/usr/bin/python3"
_EVERY = 0.1  # seconds between two looks
# What reads do not tell: a checkpoint is written beside the Dataset.
UNSEEN = "SaveCheckpoint"
# Seconds: a change takes two windows, of a second each where reads are slow. What is over before cannot be noticed.
_TWO_WINDOWS = 2.0


@dataclass(frozen=True)
class KnownMoment:
    """What was known of the pod, or true of the program, from then on."""

    seconds: float
    phase: str | None
    epoch: int | None


@dataclass(frozen=True)
class LiveVerdict:
    """Shares of the time in which phase and epoch were right, and seconds until the slowest change was noticed.

    ``missed``: changes that were not noticed before the next one, two windows later or more.
    """

    phases: float
    epochs: float
    slowest: float
    missed: int


async def run_program(
    program: str, seen: Path, folder: Path, row: Callable[[], NodeWorkload | None], **environment: str
) -> LiveVerdict:
    """Run a program of bench/truth over what a pod sees, and judge what ``row`` says meanwhile."""
    checkpoints, truth = folder / "checkpoints", folder / "truth.jsonl"
    checkpoints.mkdir()
    command = [PYTHON, str(FOLDER / program), str(seen), str(checkpoints), str(truth)]
    known: list[KnownMoment] = []
    process = await asyncio.create_subprocess_exec(*command, env=os.environ | environment)
    try:
        while process.returncode is None:
            found = row()
            if found is not None:
                known.append(KnownMoment(time.monotonic(), found.phase, found.epoch))
            await asyncio.sleep(_EVERY)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    lines = [json.loads(line) for line in truth.read_text().splitlines()]
    return judge([KnownMoment(line["t"], line["truth"]["phase"], line["truth"]["epoch"]) for line in lines], known)


def judge(truth: Sequence[KnownMoment], known: Sequence[KnownMoment]) -> LiveVerdict:
    """Compare what was known with the truth, by the looks that were taken."""
    phases: list[bool] = []
    epochs: list[bool] = []
    delays: list[float] = []
    missed = 0
    for before, after in itertools.pairwise(truth):
        if before.phase == UNSEEN:
            continue
        looks = [one for one in known if before.seconds <= one.seconds < after.seconds]
        phases += [one.phase == before.phase for one in looks]
        if before.epoch is not None:
            epochs += [one.epoch == before.epoch for one in looks]
        noticed = next((one.seconds for one in looks if one.phase == before.phase), None)
        missed += noticed is None and after.seconds - before.seconds >= _TWO_WINDOWS
        delays += [] if noticed is None else [noticed - before.seconds]
    return LiveVerdict(_share(phases), _share(epochs), max(delays, default=0.0), missed)


def _share(right: Sequence[bool]) -> float:
    return sum(right) / len(right) if right else 1.0
