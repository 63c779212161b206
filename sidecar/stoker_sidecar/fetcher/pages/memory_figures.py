"""Memory figures of the kernel: of the machine, of this cgroup (v2), and how long processes wait for memory."""

import os
from contextlib import suppress
from pathlib import Path

MEMINFO, PRESSURE = Path("/proc/meminfo"), Path("/proc/pressure/memory")
CGROUP = Path("/sys/fs/cgroup")  # the container's view, in a private cgroup namespace
# The files that are read here.
FACTS = (str(MEMINFO), str(PRESSURE), str(CGROUP / "memory.max"), str(CGROUP / "memory.stat"))
_MOST = 65_536  # bytes of one
_held: dict[Path, int] = {}


def hold() -> None:
    """Open these files and keep them open.

    Landlock loses a right to such a file when the kernel drops its name, as it may under memory pressure. A file of
    /proc is a new one afterwards.
    """
    for fact in map(Path, FACTS):
        if fact not in _held:
            with suppress(OSError):
                _held[fact] = os.open(fact, os.O_RDONLY | os.O_CLOEXEC)


def _text(path: Path) -> str:
    held = _held.get(path)
    return path.read_text() if held is None else os.pread(held, _MOST, 0).decode()


def machine_memory(meminfo: Path = MEMINFO) -> tuple[int, int]:
    """Return bytes of all memory, and of memory available without swapping. Raises OSError, KeyError, ValueError."""
    rows = dict(line.split(":", 1) for line in _text(meminfo).splitlines() if ":" in line)
    total, available = (int(rows[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
    return total, available


def cgroup_memory(cgroup: Path = CGROUP) -> tuple[int, int] | None:
    """Return the limit of a cgroup, and its bound part (all but the page cache). None: it has no limit."""
    with suppress(OSError, ValueError, KeyError):
        limit = int(_text(cgroup / "memory.max"))  # "max": a ValueError
        rows = dict(line.split() for line in _text(cgroup / "memory.stat").splitlines())
        return limit, sum(int(rows[name]) for name in ("anon", "shmem", "slab", "kernel_stack"))
    return None


def memory_pressure(pressure: Path = PRESSURE) -> float | None:
    """Return the percent of the last ten seconds in which some process waited for memory; None: it is not counted."""
    with suppress(OSError, ValueError):
        words = _text(pressure).split()
        found = [float(word.removeprefix("avg10=")) for word in words if word.startswith("avg10=")]
        return found[0] if found else None  # the line `some` comes first
    return None
