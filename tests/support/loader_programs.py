"""Programs with data loaders, and what they say of their own waiting."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.truth.programs import DEBIANS_PYTHON, FOLDER
from tests.support.waiting import wait_until

_SECONDS = 60.0  # importing PyTorch takes seconds, and the machine may be busy


@dataclass(frozen=True)
class LoaderProgram:
    """A running program of bench/truth that says when it waited. ``pid``: of the process that consumes."""

    pid: int
    out: Path

    def workers(self) -> list[int]:
        """Return the processes that it has started."""
        tasks = Path(f"/proc/{self.pid}/task")
        return [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]

    def waits(self) -> list[tuple[float, float]]:
        """Return from when until when it waited so far, by the monotonic clock."""
        text = self.out.read_text() if self.out.exists() else ""
        whole, _, _ = text.rpartition("\n")
        return [tuple(json.loads(line)) for line in whole.splitlines()]

    def stall(self, since: float, until: float) -> float:
        """Return the share of that time in which it waited, by its own measurement."""
        return sum(max(0.0, min(after, until) - max(before, since)) for before, after in self.waits()) / (until - since)


@contextmanager
def loader_program(group: Path, out: Path, command: Sequence[str]) -> Iterator[LoaderProgram]:
    """Run a program in a pod's cgroup that writes its waits to ``out``; from its third one on."""
    entering = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
    with subprocess.Popen([*entering, *command]) as process:
        program = LoaderProgram(process.pid, out)
        try:
            wait_until(lambda: process.poll() is not None or len(program.waits()) > 2, _SECONDS)
            assert process.poll() is None, "the program failed"
            yield program
        finally:
            process.kill()


def pytorch_loader(data: Path, out: Path, *words: str) -> list[str]:
    """Return the command of bench/truth/programs/loader.py. ``words``: its own, from WORKERS on."""
    return [str(DEBIANS_PYTHON), str(FOLDER / "loader.py"), str(data), str(out), *words]
