"""Programs with data loaders, what they say of their own waiting, and the pod's cgroup that they run in."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.truth.programs import FOLDER
from tests.support.live_truth import PYTHON
from tests.support.waiting import wait_until

_SECONDS = 60.0  # importing PyTorch takes seconds, and the machine may be busy


def cgroup_root() -> Path:
    """Return where this machine has its cgroup v2 file system. Raises FileNotFoundError."""
    for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        if (root / "cgroup.controllers").exists():
            return root
    raise FileNotFoundError("no cgroup v2 file system is mounted at /sys/fs/cgroup")


@contextmanager
def pod_cgroup(pod_uid: str) -> Iterator[Path]:
    """Make a pod's cgroup where a kubelet makes it; what is left in it is killed."""
    parent = cgroup_root() / f"kubepods-test-{os.getpid()}"
    group = parent / f"pod{pod_uid}"
    group.mkdir(parents=True)
    try:
        yield group
    finally:
        (group / "cgroup.kill").write_text("1")  # the loader of a test that failed
        wait_until(lambda: "populated 0" in (group / "cgroup.events").read_text())
        group.rmdir()
        if not any(path.is_dir() for path in parent.iterdir()):
            parent.rmdir()


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
    return [PYTHON, str(FOLDER / "loader.py"), str(data), str(out), *words]
