"""Processes that read files as data loaders do: open, read to the end, close; or one file at random places."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.errors import BenchError

# Larger than any small file of ours: one read brings it all, a second one finds the end.
WHOLE_BUFFER = 1024 * 1024


@dataclass(frozen=True)
class Job:
    """What one reader does: read each of ``paths`` from start to end in pieces of ``buffer`` bytes.

    With ``offsets`` it reads one piece at each of them instead.
    """

    paths: Sequence[str]
    buffer: int = WHOLE_BUFFER
    offsets: Sequence[int] = ()

    @property
    def items(self) -> int:
        """Files, or places in files."""
        return len(self.paths) * (len(self.offsets) or 1)


@dataclass(frozen=True)
class Epoch:
    """One pass over all items. ``seconds`` is from the common start until the last reader has finished."""

    files: int
    bytes: int
    seconds: float

    @property
    def rate(self) -> float:
        """Files, or places in files, a second."""
        return self.files / self.seconds

    @property
    def mb_rate(self) -> float:
        """MB a second."""
        return self.bytes / 1e6 / self.seconds


def read_epoch(
    root: Path, order: Sequence[str], readers: int, expected_bytes: int, buffer: int = WHOLE_BUFFER
) -> Epoch:
    """Read the files of ``order`` below ``root``, dealt out to ``readers`` processes.

    Raises BenchError when a read fails or the bytes are not as many as they should be.
    """
    return read_jobs(root, [Job(order[number::readers], buffer) for number in range(readers)], expected_bytes)


def read_jobs(
    root: Path, jobs: Sequence[Job], expected_bytes: int, ready: Callable[[Sequence[int]], None] = lambda pids: None
) -> Epoch:
    """Do each job in a process of its own, all at once. ``ready``: is told the pids before they begin.

    Raises BenchError when a read fails or the bytes are not as many as they should be.
    """
    with ExitStack() as stack:
        children = [stack.enter_context(_reader(root)) for _ in jobs]
        for child in children:
            stack.callback(child.kill)  # an interrupted run must not wait for the end of an epoch
        for child, job in zip(children, jobs, strict=True):
            send_line(child, json.dumps(asdict(job)))
        for child in children:
            receive_line(child)  # it has its list
        ready([child.pid for child in children])
        start = time.monotonic()
        for child in children:
            send_line(child, "go")
        ends = [json.loads(receive_line(child)) for child in children]
    total = sum(int(end["bytes"]) for end in ends)
    if total != expected_bytes:
        raise BenchError(f"{total} bytes were read below {root} where {expected_bytes} are right")
    return Epoch(sum(job.items for job in jobs), total, max(float(end["at"]) for end in ends) - start)


def _reader(root: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.readers", str(root)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def send_line(child: "subprocess.Popen[str]", line: str) -> None:
    """Send a line to a child that was made with pipes."""
    assert child.stdin is not None, "made with a pipe"
    child.stdin.write(line + "\n")
    child.stdin.flush()


def receive_line(child: "subprocess.Popen[str]") -> str:
    """Return a line from a child that was made with pipes. Raises BenchError when it has ended."""
    assert child.stdout is not None, "made with a pipe"
    line = child.stdout.readline()
    if not line:
        raise BenchError("a reader ended before its last file; it said why on standard error")
    return line


def _read_whole(root: str, job: Job) -> int:
    buffer = bytearray(job.buffer)
    total = 0
    for path in job.paths:
        descriptor = os.open(f"{root}/{path}", os.O_RDONLY)
        while count := os.readv(descriptor, [buffer]):
            total += count
        os.close(descriptor)
    return total


def _read_places(root: str, job: Job) -> int:
    buffer = bytearray(job.buffer)
    total = 0
    for path in job.paths:
        descriptor = os.open(f"{root}/{path}", os.O_RDONLY)
        total += sum(os.preadv(descriptor, [buffer], offset) for offset in job.offsets)
        os.close(descriptor)
    return total


def main() -> None:
    """Be the reader process: job, then the word to go, on standard input; the end on standard output."""
    job = Job(**json.loads(sys.stdin.readline()))
    print("ready", flush=True)
    sys.stdin.readline()
    total = (_read_places if job.offsets else _read_whole)(sys.argv[1], job)
    # The monotonic clock is the machine's, the same for all processes.
    print(json.dumps({"at": time.monotonic(), "bytes": total}), flush=True)


if __name__ == "__main__":
    main()
