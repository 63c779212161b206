"""Training programs on a real mount, the node's knowledge of them over time, and the correct share of it."""

import asyncio
import itertools
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stoker_api.node_caches.node_workload import NodeWorkload
from tests.support.pythons import DEBIANS_PYTHON

_PROGRAMS = Path(__file__).parent / "programs"
_EVERY = 0.1  # seconds between two samples
# Reads do not show it: a checkpoint is written outside the Dataset.
UNSEEN = "SaveCheckpoint"
# Seconds: a change takes two windows, of a second each for slow reads. Shorter phases cannot be noticed.
_TWO_WINDOWS = 2.0
# Enters a cgroup, then becomes the program.
_WITHIN = 'echo $$ > "$0" && exec "$@"'


@dataclass(frozen=True)
class KnownMoment:
    """The node's knowledge of the pod, or the true phase of the program, from a time on."""

    seconds: float
    phase: str | None
    epoch: int | None


@dataclass(frozen=True)
class LiveVerdict:
    """Shares of the time with a correct phase and epoch, and seconds until the slowest change was noticed.

    ``changes`` has the seconds until each change was noticed. ``missed`` is the number of changes that were not noticed
    before the next one, at least two windows later.
    """

    phases: float
    epochs: float
    missed: int
    changes: Sequence[tuple[str, float]] = field(repr=False)

    @property
    def slowest(self) -> float:
        """The seconds of the slowest noticed change."""
        return max((seconds for _, seconds in self.changes), default=0.0)

    def __str__(self) -> str:
        late = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in self.changes)
        return f"phases {self.phases:.1%}, epochs {self.epochs:.1%}, missed {self.missed}, noticed after {late}"


@dataclass(frozen=True)
class LiveProgram:
    """A program of tests/support/programs in one pod with the name ``pod``.

    ``python`` is the interpreter with its libraries. ``group`` is the pod's cgroup, in which it runs. With None, it is
    the only pod.
    """

    script: str
    pod: str = "trainer-0"
    python: Path = DEBIANS_PYTHON
    arguments: Sequence[str] = ()
    group: Path | None = None


async def run_program(
    program: LiveProgram, seen: Path, folder: Path, rows: Callable[[], Sequence[NodeWorkload]], **environment: str
) -> LiveVerdict:
    """Run a program on a pod's view, and compare ``rows`` with the truth during the run."""
    folder = folder / program.pod
    (folder / "checkpoints").mkdir(parents=True)
    truth = folder / "truth.jsonl"
    known: list[KnownMoment] = []
    command = [str(program.python), str(_PROGRAMS / program.script), str(seen), str(folder / "checkpoints"), str(truth)]
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
    """Compare the samples with the truth."""
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
