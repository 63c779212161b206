"""Training programs on a real mount, what their node knows of them at each moment, and how much of that is right."""

import asyncio
import itertools
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.truth.programs import DEBIANS_PYTHON, FOLDER
from stoker_api.node_workload import NodeWorkload

_EVERY = 0.1  # seconds between two looks
# What reads do not tell: a checkpoint is written beside the Dataset.
UNSEEN = "SaveCheckpoint"
# Seconds: a change takes two windows, of a second each where reads are slow. What is over before cannot be noticed.
_TWO_WINDOWS = 2.0
# Puts itself into a cgroup, then becomes the program.
_WITHIN = 'echo $$ > "$0" && exec "$@"'


@dataclass(frozen=True)
class KnownMoment:
    """What was known of the pod, or true of the program, from then on."""

    seconds: float
    phase: str | None
    epoch: int | None


@dataclass(frozen=True)
class LiveVerdict:
    """Shares of the time in which phase and epoch were right, and seconds until the slowest change was noticed.

    ``changes``: seconds until each change was noticed; ``missed``: changes that were not noticed before the next one,
    two windows later or more.
    """

    phases: float
    epochs: float
    missed: int
    changes: Sequence[tuple[str, float]] = field(repr=False)

    @property
    def slowest(self) -> float:
        """Seconds that the slowest noticed change took."""
        return max((seconds for _, seconds in self.changes), default=0.0)

    def __str__(self) -> str:
        late = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in self.changes)
        return f"phases {self.phases:.1%}, epochs {self.epochs:.1%}, missed {self.missed}, noticed after {late}"


@dataclass(frozen=True)
class LiveProgram:
    """A program of bench/truth, as one pod runs it. ``pod``: its name; ``python``: that has its libraries.

    ``group``: the pod's cgroup, in which it runs; None: where it is the only pod.
    """

    script: str
    pod: str = "trainer-0"
    python: Path = DEBIANS_PYTHON
    arguments: Sequence[str] = ()
    group: Path | None = None


async def run_program(
    program: LiveProgram, seen: Path, folder: Path, rows: Callable[[], Sequence[NodeWorkload]], **environment: str
) -> LiveVerdict:
    """Run a program over what a pod sees, and judge what ``rows`` say of it meanwhile."""
    folder = folder / program.pod
    (folder / "checkpoints").mkdir(parents=True)
    truth = folder / "truth.jsonl"
    known: list[KnownMoment] = []
    command = [str(program.python), str(FOLDER / program.script), str(seen), str(folder / "checkpoints"), str(truth)]
    async with _running(program, [*command, *program.arguments], os.environ | environment) as process:
        while process.returncode is None:
            found = next((row for row in rows() if row.pod.endswith(f"/{program.pod}")), None)
            if found is not None:
                known.append(KnownMoment(time.monotonic(), found.phase, found.epoch))
            await asyncio.sleep(_EVERY)
    assert process.returncode == 0
    lines = [json.loads(line) for line in truth.read_text().splitlines()]
    return judge([KnownMoment(line["t"], line["truth"]["phase"], line["truth"]["epoch"]) for line in lines], known)


@asynccontextmanager
async def _running(
    program: LiveProgram, command: Sequence[str], environment: dict[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    within = ["sh", "-c", _WITHIN, str(program.group / "cgroup.procs")] if program.group else []
    process = await asyncio.create_subprocess_exec(*within, *command, env=environment)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def judge(truth: Sequence[KnownMoment], known: Sequence[KnownMoment]) -> LiveVerdict:
    """Compare what was known with the truth, by the looks that were taken."""
    phases: list[bool] = []
    epochs: list[bool] = []
    changes: list[tuple[str, float]] = []
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
        changes += [] if noticed is None else [(str(before.phase), noticed - before.seconds)]
    return LiveVerdict(_share(phases), _share(epochs), missed, changes)


def _share(right: Sequence[bool]) -> float:
    return sum(right) / len(right) if right else 1.0
