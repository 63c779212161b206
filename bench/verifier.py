"""Processes that read in all ways and compare each byte, to detect the effects of killed processes."""

import json
import mmap
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Generic, Self, TypeVar

from bench.children import Child, receive_line, send_line, start_child
from bench.objects import Bodies, paths
from bench.scale import Corpus

_PIECE = 16 * 1024
_KEPT_OPEN = 16
_RENEWED = 0.2  # share of calls on an open file that open a new one first
_SAID = 3

_T = TypeVar("_T")


@dataclass
class Findings:
    """The findings of verifying readers.

    ``longest`` is the seconds of the slowest call, which ended at ``longest_at`` on the machine's monotonic clock.
    ``said`` has the first errors.
    """

    reads: int = 0
    failed: int = 0
    wrong: int = 0
    longest: float = 0.0
    longest_at: float = 0.0
    said: list[str] = field(default_factory=list)

    def add(self, other: "Findings") -> None:
        """Add the findings of another reader."""
        self.reads += other.reads
        self.failed += other.failed
        self.wrong += other.wrong
        self.longest, self.longest_at = max((self.longest, self.longest_at), (other.longest, other.longest_at))
        self.said = [*self.said, *other.said][:_SAID]


class Verifiers:
    """Processes that read below ``root`` and check every byte, as a context manager.

    ``findings`` returns the result.
    """

    def __init__(self, root: Path, corpus: Corpus, readers: int) -> None:
        self._root = root
        self._corpus = corpus
        self._count = readers
        self._stack = ExitStack()
        self._children: list[Child] = []
        self.findings = Findings()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for seed in range(self._count):
                words = [str(self._root), str(seed), json.dumps(asdict(self._corpus))]
                self._children.append(start_child(stack, "bench.verifier", *words))
            for child in self._children:
                receive_line(child)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        with self._stack:
            if error is not None:
                return
            for child in self._children:
                send_line(child, "stop")
            for child in self._children:
                self.findings.add(Findings(**json.loads(receive_line(child))))


class _Kept(Generic[_T]):
    """Files that stay open, or mapped, from one call to the next."""

    def __init__(self, make: Callable[[int], _T], end: Callable[[_T], None]) -> None:
        self._make = make
        self._end = end
        self._kept: dict[int, _T] = {}

    def one(self, number: int, chance: random.Random) -> tuple[int, _T]:
        """Return an open file and its number. Now and then, open ``number`` in place of the oldest file."""
        if len(self._kept) < _KEPT_OPEN or chance.random() < _RENEWED:
            if len(self._kept) >= _KEPT_OPEN:
                self._end(self._kept.pop(next(iter(self._kept))))
            if number not in self._kept:
                self._kept[number] = self._make(number)
        else:
            number = chance.choice(list(self._kept))
        return number, self._kept[number]


class Reader:
    """The ways of one process to read a file. Each returns True if the bytes were right."""

    def __init__(self, root: str, corpus: Corpus, chance: random.Random) -> None:
        self._root = root
        self._names = list(paths(corpus))
        self._bodies = Bodies(corpus)
        self._size = corpus.size
        self._chance = chance
        self._open = _Kept(lambda number: os.open(self._path(number), os.O_RDONLY), os.close)
        self._maps = _Kept(lambda number: _map(self._path(number)), mmap.mmap.close)

    def ways(self) -> Sequence[Callable[[int], bool]]:
        """Return all ways to read. The reopening read is listed twice, because training uses it most."""
        return (self.whole, self.whole, self.piece, self.mapped, self.attributes)

    def whole(self, number: int) -> bool:
        """Open, read to the end and close. Drop the pages, so that the next read asks again."""
        descriptor = os.open(self._path(number), os.O_RDONLY)
        try:
            data = b"".join(iter(lambda: os.read(descriptor, self._size), b""))
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
        return data == self._bodies.of(number)

    def piece(self, number: int) -> bool:
        """Read a place in a file that has been open for some time."""
        number, descriptor = self._open.one(number, self._chance)
        start = self._chance.randrange(self._size)
        data = os.pread(descriptor, _PIECE, start)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return data == self._bodies.of(number)[start : start + _PIECE]

    def mapped(self, number: int) -> bool:
        """Read a place in a file that has been mapped for some time."""
        number, view = self._maps.one(number, self._chance)
        start = self._chance.randrange(self._size)
        data = view[start : start + _PIECE]
        view.madvise(mmap.MADV_DONTNEED)
        return data == self._bodies.of(number)[start : start + _PIECE]

    def attributes(self, number: int) -> bool:
        """Compare the size, and find the name in the folder's list."""
        path = self._path(number)
        names = os.listdir(os.path.dirname(path))  # noqa: PTH120, PTH208  as readers do it
        return os.stat(path).st_size == self._size and os.path.basename(path) in names  # noqa: PTH116, PTH119

    def _path(self, number: int) -> str:
        return f"{self._root}/{self._names[number]}"


def _map(path: str) -> mmap.mmap:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)


def _watch_for_stop(stopped: threading.Event) -> None:
    sys.stdin.readline()
    stopped.set()


def verify(reader: Reader, files: int, chance: random.Random, stopped: Callable[[], bool]) -> Findings:
    """Read in random ways until ``stopped``. Return the findings."""
    findings, ways = Findings(), reader.ways()
    while not stopped():
        way, number = chance.choice(ways), chance.randrange(files)
        start = time.monotonic()
        try:
            right, trouble = way(number), ""
        except OSError as error:
            right, trouble = True, str(error)
        end = time.monotonic()
        said = [f"{way.__name__} of file {number}: {trouble or 'wrong bytes'}"] if trouble or not right else []
        findings.add(Findings(1, int(bool(trouble)), int(not right), end - start, end, said))
    return findings


def main() -> None:
    """Run a reader process. Folder, seed and corpus are arguments. A line on stdin ends it."""
    root, seed, corpus = sys.argv[1], int(sys.argv[2]), Corpus(**json.loads(sys.argv[3]))
    chance, stopped = random.Random(seed), threading.Event()
    reader = Reader(root, corpus, chance)
    threading.Thread(target=_watch_for_stop, args=(stopped,), daemon=True).start()
    print("ready", flush=True)
    print(json.dumps(asdict(verify(reader, corpus.files, chance, stopped.is_set))), flush=True)


if __name__ == "__main__":
    main()
