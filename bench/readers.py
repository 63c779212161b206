"""Reads files as data loaders do: several processes, each file opened, read to its end and closed."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError

# Larger than any small file of ours: one read brings it all, a second one finds the end.
_BUFFER_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Epoch:
    """All files once. ``seconds``: from the common start until the last reader has finished."""

    files: int
    bytes: int
    seconds: float

    @property
    def rate(self) -> float:
        """Files a second."""
        return self.files / self.seconds


def read_epoch(root: Path, order: Sequence[str], readers: int, expected_bytes: int) -> Epoch:
    """Read ``order`` below ``root``, dealt out to ``readers`` processes. Raises BenchError when anything is not as it should be."""
    with ExitStack() as stack:
        children = [stack.enter_context(_reader(root)) for _ in range(readers)]
        for child in children:
            stack.callback(child.kill)  # an interrupted run must not wait for the end of an epoch
        for number, child in enumerate(children):
            _say(child, json.dumps(order[number::readers]))
        for child in children:
            _hear(child)  # it has its list
        start = time.monotonic()
        for child in children:
            _say(child, "go")
        ends = [json.loads(_hear(child)) for child in children]
    total = sum(int(end["bytes"]) for end in ends)
    if total != expected_bytes:
        raise BenchError(f"{total} bytes were read below {root} where {expected_bytes} are right")
    return Epoch(len(order), total, max(float(end["at"]) for end in ends) - start)


def _reader(root: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.readers", str(root)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _say(child: "subprocess.Popen[str]", line: str) -> None:
    assert child.stdin is not None, "made with a pipe"
    child.stdin.write(line + "\n")
    child.stdin.flush()


def _hear(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None, "made with a pipe"
    line = child.stdout.readline()
    if not line:
        raise BenchError("a reader ended before its last file; it said why on standard error")
    return line


def _read_all(root: str, order: Sequence[str]) -> int:
    buffer = bytearray(_BUFFER_BYTES)
    total = 0
    for path in order:
        descriptor = os.open(f"{root}/{path}", os.O_RDONLY)
        while count := os.readv(descriptor, [buffer]):
            total += count
        os.close(descriptor)
    return total


def main() -> None:
    """The reader process: its list, then the word to go, on standard input; the end on standard output."""
    order = json.loads(sys.stdin.readline())
    print("ready", flush=True)
    sys.stdin.readline()
    total = _read_all(sys.argv[1], order)
    # The monotonic clock is the machine's, the same for all processes.
    print(json.dumps({"at": time.monotonic(), "bytes": total}), flush=True)


if __name__ == "__main__":
    main()
