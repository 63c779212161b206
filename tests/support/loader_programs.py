"""Programs with data loaders, and their own reports of wait times."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.pythons import DEBIANS_PYTHON
from tests.support.waiting import wait_until

_LOADER = Path(__file__).parent / "programs" / "loader.py"
_SECONDS = 60.0  # importing PyTorch takes seconds, and the machine may be busy


@dataclass(frozen=True)
class LoaderProgram:
    """A running program that logs its waits. ``pid`` is that of the consuming process."""

    pid: int
    out: Path

    def workers(self) -> list[int]:
        """Return its child processes."""
        tasks = Path(f"/proc/{self.pid}/task")
        return [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]

    def waits(self) -> list[tuple[float, float]]:
        """Return the start and end of its waits so far, by the monotonic clock."""
        text = self.out.read_text() if self.out.exists() else ""
        whole, _, _ = text.rpartition("\n")
        return [tuple(json.loads(line)) for line in whole.splitlines()]

    def stall(self, since: float, until: float) -> float:
        """Return the share of that time spent waiting, by its own measurement."""
        return sum(max(0.0, min(after, until) - max(before, since)) for before, after in self.waits()) / (until - since)


@contextmanager
def loader_program(group: Path, out: Path, command: Sequence[str]) -> Iterator[LoaderProgram]:
    """Run a program in a pod's cgroup that writes its waits to ``out``. Return after its third one."""
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
    """Return the command of programs/loader.py. ``words`` are its arguments from WORKERS on."""
    return [str(DEBIANS_PYTHON), str(_LOADER), str(data), str(out), *words]
