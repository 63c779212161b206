"""Processes that read files as data loaders do (open, read to the end, close), or one file at random places."""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.children import receive_job, run_together
from bench.errors import BenchError

# Larger than any small file of the benchmarks: one read returns the whole file, a second one finds the end.
WHOLE_BUFFER = 1024 * 1024


@dataclass(frozen=True)
class Job:
    """The job of one reader: read each of ``paths`` from start to end in pieces of ``buffer`` bytes.

    With ``offsets``, read one piece at each offset instead.
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
    """One pass over all items. ``seconds`` is from the common start to the end of the last reader."""

    files: int
    bytes: int
    seconds: float

    @property
    def rate(self) -> float:
        """Files, or places in files, per second."""
        return self.files / self.seconds

    @property
    def mb_rate(self) -> float:
        """MB per second."""
        return self.bytes / 1e6 / self.seconds


def read_epoch(
    root: Path, order: Sequence[str], readers: int, expected_bytes: int, buffer: int = WHOLE_BUFFER
) -> Epoch:
    """Read the files of ``order`` below ``root`` with ``readers`` processes.

    Raises BenchError if a read fails or the number of bytes is wrong.
    """
    return read_jobs(root, [Job(order[number::readers], buffer) for number in range(readers)], expected_bytes)


def read_jobs(
    root: Path,
    jobs: Sequence[Job],
    expected_bytes: int,
    ready: Callable[[], None] = lambda: None,
    module: str = "bench.readers",
    python: str = sys.executable,
) -> Epoch:
    """Run each job in a separate process of ``module``, all at once. ``ready`` is called before they start.

    Raises BenchError if a read fails or the number of bytes is wrong.
    """
    start, said = run_together(module, root, [asdict(job) for job in jobs], ready, python)
    ends = [json.loads(line) for line in said]
    total = sum(int(end["bytes"]) for end in ends)
    if total != expected_bytes:
        raise BenchError(f"{total} bytes were read below {root} where {expected_bytes} are right")
    return Epoch(sum(job.items for job in jobs), total, max(float(end["at"]) for end in ends) - start)


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
    """Run a reader process. It gets the job and the start signal on stdin, and prints the end time."""
    job = Job(**receive_job())
    total = (_read_places if job.offsets else _read_whole)(sys.argv[1], job)
    # All processes share the machine's monotonic clock.
    print(json.dumps({"at": time.monotonic(), "bytes": total}), flush=True)


if __name__ == "__main__":
    main()
