"""What the kernel says of memory: of the machine, of the own cgroup (v2), and how long processes wait for it."""

from contextlib import suppress
from pathlib import Path

MEMINFO, PRESSURE = Path("/proc/meminfo"), Path("/proc/pressure/memory")
CGROUP = Path("/sys/fs/cgroup")  # as a container sees it, in a cgroup namespace of its own
# The files that are read here.
FACTS = (str(MEMINFO), str(PRESSURE), str(CGROUP / "memory.max"), str(CGROUP / "memory.stat"))


def machine_memory(meminfo: Path = MEMINFO) -> tuple[int, int]:
    """Return bytes of all memory, and of what is available without swapping. Raises OSError, KeyError, ValueError."""
    rows = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    total, available = (int(rows[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
    return total, available


def cgroup_memory(cgroup: Path = CGROUP) -> tuple[int, int] | None:
    """Return the limit of a cgroup and what of it is bound, by other than the page cache; None: it has no limit."""
    with suppress(OSError, ValueError, KeyError):
        limit = int((cgroup / "memory.max").read_text())  # "max": a ValueError
        rows = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        return limit, sum(int(rows[name]) for name in ("anon", "shmem", "slab", "kernel_stack"))
    return None


def memory_pressure(pressure: Path = PRESSURE) -> float | None:
    """Return the percent of the last ten seconds in which some process waited for memory; None: it is not counted."""
    with suppress(OSError, ValueError):
        words = pressure.read_text().split()
        found = [float(word.removeprefix("avg10=")) for word in words if word.startswith("avg10=")]
        return found[0] if found else None  # the line `some` comes first
    return None
