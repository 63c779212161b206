"""Child processes that get a job over a pipe, wait for each other, and start at the same moment."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from bench.errors import BenchError

Child = subprocess.Popen[str]


def start_child(
    stack: ExitStack,
    module: str,
    *words: str,
    pass_fds: Sequence[int] = (),
    stderr: IO[bytes] | None = None,
    python: str = sys.executable,
) -> Child:
    """Start a module with pipes. The end of ``stack`` kills the process, also after an interrupt."""
    command = [python, "-m", module, *words]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=stderr, text=True, pass_fds=pass_fds, start_new_session=True
    )
    child = stack.enter_context(process)
    stack.callback(child.kill)
    return child


def send_line(child: Child, line: str) -> None:
    """Send a line to a child."""
    assert child.stdin is not None, "made with a pipe"
    child.stdin.write(line + "\n")
    child.stdin.flush()


def receive_line(child: Child) -> str:
    """Return a line from a child. Raises BenchError if the child has ended."""
    assert child.stdout is not None, "made with a pipe"
    line = child.stdout.readline()
    if not line:
        raise BenchError(f"{child.args!r} ended early: its error is on standard error")
    return line


def run_together(
    module: str,
    root: Path,
    jobs: Sequence[Mapping[str, Any]],
    ready: Callable[[], None] = lambda: None,
    python: str = sys.executable,
) -> tuple[float, list[str]]:
    """Run a process of ``module`` for each job. Return the start time and the last line of each process.

    ``ready`` runs when all processes have their jobs, before they start. Raises BenchError if one fails.
    """
    with ExitStack() as stack:
        children = [start_child(stack, module, str(root), python=python) for _ in jobs]
        for child, job in zip(children, jobs, strict=True):
            send_line(child, json.dumps(job))
        for child in children:
            receive_line(child)
        ready()
        start = time.monotonic()
        for child in children:
            send_line(child, "go")
        return start, [receive_line(child) for child in children]


def receive_job() -> Mapping[str, Any]:
    """Return the job of this child of ``run_together``, when it is time to start."""
    job: Mapping[str, Any] = json.loads(sys.stdin.readline())
    print("ready", flush=True)
    sys.stdin.readline()
    return job
