"""Measurements of the machine: CPU and memory of processes, the page cache, and the time of an event."""

import mmap
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.errors import BenchError
from e2e.cluster.processes import wait_for

_PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the name in parentheses, which may contain blanks: the parent; then utime, stime, and
# the same of ended children, in ticks.
_PARENT = 1
_UTIME, _STIME, _CUTIME, _CSTIME = 11, 12, 13, 14
MIB = 2**20
_HUGE, _SPARE_BYTES = 2 * MIB, 256 * MIB
# A time measured with this wait is accurate to 5 ms. Raises NotReadyError.
wait_until = partial(wait_for, poll_seconds=0.005)


class Memory(NamedTuple):
    """Memory of a process, in bytes.

    ``pss`` divides shared pages among the processes, so it may be summed. ``rss`` counts shared pages in each process.
    """

    pss: int
    rss: int


def parse_parent(stat: str) -> int:
    """Return the parent's pid in /proc/PID/stat. Pure."""
    return int(stat.rpartition(")")[2].split()[_PARENT])


def parse_ticks(stat: str) -> int:
    """Return the CPU ticks of a process and of its children that have ended. Pure."""
    fields = stat.rpartition(")")[2].split()
    return sum(int(fields[at]) for at in (_UTIME, _STIME, _CUTIME, _CSTIME))


def parse_peak(status: str) -> int:
    """Return the highest RSS, in bytes, in /proc/PID/status. 0 for an exiting process. Pure."""
    line = next((line for line in status.splitlines() if line.startswith("VmHWM:")), "VmHWM: 0 kB")
    return int(line.split()[1]) * 1024


def below(root: int, parents: Mapping[int, int]) -> set[int]:
    """Return ``root`` and all its descendants, from {pid: parent}. Pure."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found, rest = set(), [root]
    while rest:
        found.add(pid := rest.pop())
        rest += children.get(pid, [])
    return found


def parse_rollup(text: str) -> Memory:
    """Return the memory in /proc/PID/smaps_rollup. Pure."""
    kib = dict(line.split()[:2] for line in text.splitlines()[1:])
    return Memory(int(kib["Pss:"]) * 1024, int(kib["Rss:"]) * 1024)


class CoreTicks(NamedTuple):
    """CPU ticks of all cores since boot: ``busy``, and in total."""

    busy: int
    total: int

    def share_since(self, before: "CoreTicks") -> float:
        """Return the share of busy CPU time since ``before``."""
        return (self.busy - before.busy) / max(1, self.total - before.total)


def parse_cores(stat: str) -> CoreTicks:
    """Return the first line of /proc/stat. Pure."""
    user, nice, system, idle, waiting, *others = (int(field) for field in stat.splitlines()[0].split()[1:9])
    busy = user + nice + system + sum(others)
    return CoreTicks(busy, busy + idle + waiting)


def machine_ticks() -> CoreTicks:
    """Return the ticks of all cores so far."""
    return parse_cores(_read("stat"))


def tree(root: int) -> set[int]:
    """Return the process ``root`` and all its current descendants."""
    stats = ((int(name), _read(f"{name}/stat")) for name in os.listdir(_PROC) if name.isdecimal())  # noqa: PTH208  names only
    return below(root, {pid: parse_parent(stat) for pid, stat in stats if stat})


def tree_cpu_seconds(root: int) -> float:
    """Return the CPU seconds of a process tree, including exited children that were waited for."""
    stats = (_read(f"{pid}/stat") for pid in tree(root))
    return sum(parse_ticks(stat) for stat in stats if stat) / _TICK


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of one process so far. 0 if it has exited."""
    stat = _read(f"{pid}/stat")
    return parse_ticks(stat) / _TICK if stat else 0.0


def peak_bytes(pids: Iterable[int]) -> int:
    """Return the sum of the processes' highest RSS since ``forget_peaks``, in bytes.

    Shared pages count in each process.
    """
    return sum(parse_peak(_read(f"{pid}/status")) for pid in pids)


def forget_peaks(pids: Iterable[int]) -> None:
    """Reset the highest RSS of these processes."""
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            (_PROC / str(pid) / "clear_refs").write_text("5")  # proc(5): resets VmHWM


def _read(name: str) -> str:
    """Return the content of a file in /proc. Empty if the process has exited."""
    try:
        return (_PROC / name).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def memory(pid: int) -> Memory:
    """Return the memory of one process now. Zero if it has exited."""
    try:
        return parse_rollup((_PROC / str(pid) / "smaps_rollup").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return Memory(0, 0)


def drop_page_cache() -> None:
    """Write back dirty pages, then drop all clean pages, dentries and inodes. Raises BenchError."""
    os.sync()
    drop_clean_pages()


def drop_clean_pages() -> None:
    """Drop clean pages, dentries and inodes. It is quick, so readers may continue. Raises BenchError."""
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError as error:
        raise BenchError(f"the page cache cannot be dropped ({error.strerror}): run the benchmarks as root") from error


def take_memory(written: int) -> None:
    """Touch memory for ``written`` bytes of files and their writers, so that the VM's host has already provided it.

    A host reclaims memory that is free for seconds. The next use of that memory costs CPU in the kernel's copy to the
    page cache, so a sample would depend on the pause before it.
    """
    size = written + written // 4 + _SPARE_BYTES
    with mmap.mmap(-1, size + _HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for offset in range(0, size, _HUGE):
            memory[offset] = 1


@dataclass(frozen=True)
class Peak:
    """Memory of each process at the moment with the highest sum of PSS."""

    processes: dict[str, Memory]

    @property
    def total(self) -> Memory:
        """The sum over all processes."""
        rows = self.processes.values()
        return Memory(sum(row.pss for row in rows), sum(row.rss for row in rows))


class MemoryWatch:
    """A context manager that samples the memory of processes a few times a second.

    ``processes`` returns {name: pid} for each sample.
    """

    SECONDS = 0.25

    def __init__(self, processes: Callable[[], dict[str, int]]) -> None:
        self._processes = processes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak = Peak({})

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            now = Peak({name: memory(pid) for name, pid in self._processes().items()})
            self.peak = max(self.peak, now, key=lambda peak: peak.total.pss)
            if self._stop.wait(self.SECONDS):
                return
