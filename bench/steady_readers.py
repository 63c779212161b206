"""Processes that read files repeatedly, and always know the number of files read."""

import json
import os
import random
import struct
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from mmap import mmap
from pathlib import Path
from typing import Self

from bench.children import Child, receive_line, send_line, start_child
from bench.errors import BenchError
from bench.readers import WHOLE_BUFFER

# Each reader's number has a separate cache line.
_APART = 64
_NUMBER = struct.Struct("q")


class SteadyReaders:
    """Readers of the files of ``order`` below ``root``, with ``readers`` processes, as a context manager."""

    def __init__(self, root: Path, order: Sequence[str], readers: int) -> None:
        self._root = root
        self._shares = [order[number::readers] for number in range(readers)]
        self._children: list[Child] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            counters = os.memfd_create("readers")
            stack.callback(os.close, counters)
            os.ftruncate(counters, _APART * len(self._shares))
            self._counts = stack.enter_context(mmap(counters, 0))
            for number, paths in enumerate(self._shares):
                words = [str(self._root), str(counters), str(number)]
                child = start_child(stack, "bench.steady_readers", *words, pass_fds=[counters])
                self._children.append(child)
                send_line(child, json.dumps(paths))
            for child in self._children:
                receive_line(child)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def files(self) -> int:
        """Return the number of files read so far. Raises BenchError if a reader has ended."""
        if any(child.poll() is not None for child in self._children):
            raise BenchError("a reader ended while others read on; it said why on standard error")
        numbers = range(len(self._children))
        return sum(_NUMBER.unpack_from(self._counts, number * _APART)[0] for number in numbers)


def main() -> None:
    """Run a reader process. It gets the list of files on stdin and reads until it is killed."""
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
