"""Processes that read files again and again, and say at any time how many they have read."""

import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from mmap import mmap
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.errors import BenchError
from bench.readers import WHOLE_BUFFER, receive_line, send_line

# Each reader's number has a cache line of its own.
_APART = 64
_NUMBER = struct.Struct("q")


class SteadyReaders:
    """Readers of the files of ``order`` below ``root``, dealt out to ``readers`` processes, as a context manager."""

    def __init__(self, root: Path, order: Sequence[str], readers: int) -> None:
        self._root = root
        self._shares = [order[number::readers] for number in range(readers)]
        self._children: list[subprocess.Popen[str]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            counters = os.memfd_create("readers")
            stack.callback(os.close, counters)
            os.ftruncate(counters, _APART * len(self._shares))
            self._counts = stack.enter_context(mmap(counters, 0))
            for number, paths in enumerate(self._shares):
                command = [sys.executable, "-m", "bench.steady_readers", str(self._root), str(counters), str(number)]
                child = stack.enter_context(
                    subprocess.Popen(
                        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[counters]
                    )
                )
                stack.callback(child.kill)
                self._children.append(child)
                send_line(child, json.dumps(paths))
            for child in self._children:
                receive_line(child)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def files(self) -> int:
        """Return how many files were read so far. Raises BenchError when a reader has ended."""
        if any(child.poll() is not None for child in self._children):
            raise BenchError("a reader ended while others read on; it said why on standard error")
        numbers = range(len(self._children))
        return sum(_NUMBER.unpack_from(self._counts, number * _APART)[0] for number in numbers)


def main() -> None:
    """Be a reader: the list of files on standard input; reads until it is killed."""
    root, counters, number = sys.argv[1:]
    paths = [f"{root}/{path}" for path in json.loads(sys.stdin.readline())]
    print("ready", flush=True)
    orders, buffer, count = random.Random(int(number)), bytearray(WHOLE_BUFFER), 0
    with mmap(int(counters), 0) as counts:
        while True:
            orders.shuffle(paths)
            for path in paths:
                descriptor = os.open(path, os.O_RDONLY)
                while os.readv(descriptor, [buffer]):
                    pass
                os.close(descriptor)
                count += 1
                _NUMBER.pack_into(counts, int(number) * _APART, count)


if __name__ == "__main__":
    main()
