"""A control group with little memory, in which programs find as much page cache as a machine with little would have."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError
from stoker_sidecar.fetcher.core.page_room import MemoryFigures
from stoker_sidecar.linux.memory import machine_memory, memory_pressure

_ROOT = Path("/sys/fs/cgroup")
_GONE_SECONDS = 10.0


@dataclass(frozen=True)
class MemoryLimit:
    """A group of cgroup v1 or v2 that has so many bytes, of the page cache too."""

    folder: Path

    def add(self, pids: Iterable[int]) -> None:
        """Have these processes belong to it from now on."""
        for pid in pids:
            (self.folder / "cgroup.procs").write_text(str(pid))

    def command(self, command: Sequence[str]) -> list[str]:
        """Return a command that runs this one as a part of the group."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *command]


@contextmanager
def memory_limit(size: int) -> Iterator[MemoryLimit]:
    """Make a group while inside. Raises BenchError where none can be made."""
    folder = _hierarchy() / f"stoker-bench-{os.getpid()}"
    try:
        folder.mkdir()
        limit = "memory.max" if (folder / "memory.max").exists() else "memory.limit_in_bytes"
        (folder / limit).write_text(str(size))
    except OSError as error:
        raise BenchError(f"no control group with little memory can be made: {error}") from error
    try:
        yield MemoryLimit(folder)
    finally:
        _remove(folder)


def limited_memory(folder: Path) -> MemoryFigures:
    """Return what a fetcher in a container with this limit sees. Raises OSError, KeyError, ValueError."""
    total, available = machine_memory()
    second = (folder / "memory.max").exists()
    limit = int((folder / ("memory.max" if second else "memory.limit_in_bytes")).read_text())
    rows = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    bound = sum(int(rows[name]) for name in (("anon", "shmem") if second else ("total_rss", "total_shmem")))
    return MemoryFigures(min(total, limit), min(available, limit), limit, bound, memory_pressure())


def _hierarchy() -> Path:
    first = _ROOT / "memory"
    return first if first.is_dir() else _ROOT


def _remove(folder: Path) -> None:
    """Remove a group: its processes end, and leave it, a moment after they were told to."""
    end = time.monotonic() + _GONE_SECONDS
    while True:
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return
