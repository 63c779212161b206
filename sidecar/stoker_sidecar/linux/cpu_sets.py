"""CPU sets of processes: lists in the kernel's format, and the CPUs near a disk."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.linux.hardware import block_device_of, read_mounts

MOST_CPU = 8191  # NR_CPUS of the largest kernels
_MOST_TEXT = 4096  # characters of a list
_PART = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
_MOST_DEPTH = 4  # levels of stacked devices, such as LVM on a RAID


def parse_cpus(text: str) -> frozenset[int]:
    """Parse a list such as ``0-3,8``. Raises ValueError with a sentence. Pure."""
    found: set[int] = set()
    for part in text.strip().split(",") if len(text) <= _MOST_TEXT else [text[:40]]:
        match = _PART.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last > MOST_CPU:
            raise ValueError(f"{text[:80]!r} is not a list of CPUs: write numbers up to {MOST_CPU} such as 0-3,8")
        found.update(range(first, last + 1))
    return frozenset(found)


def format_cpus(cpus: Iterable[int]) -> str:
    """Format a list as the kernel does; empty for none. Pure."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


@dataclass(frozen=True)
class CpuChoice:
    """The chosen CPUs, the reason, and any problem with the requested ones; empty: none."""

    cpus: frozenset[int]
    why: str = ""
    trouble: str = ""

    @property
    def sentence(self) -> str:
        """The choice in a sentence for people."""
        said = f"CPUs {format_cpus(self.cpus)}" + (f", {self.why}" if self.why else "")
        return f"{said}; {self.trouble}" if self.trouble else said


def choose_cpus(wanted: frozenset[int] | None, allowed: frozenset[int], near: Sequence[frozenset[int]]) -> CpuChoice:
    """Return the allowed CPUs of ``wanted``; for None, those near the cache disks. Never empty. Pure.

    ``near`` has the CPUs of each cache disk's NUMA node, empty for a disk without one: then all allowed CPUs are used.
    """
    if wanted is not None:
        missing, chosen = wanted - allowed, wanted & allowed
        if not missing:
            return CpuChoice(chosen, "as they were asked for")
        what = f"CPUs {format_cpus(missing)} cannot be used here"
        if chosen:
            return CpuChoice(chosen, "of those that were asked for", what)
        return CpuChoice(allowed, "all that can be used", f"{what}: name some of these")
    close = frozenset().union(*near) & allowed
    if not near or not all(near) or not close or close == allowed:
        return CpuChoice(allowed, "all that can be used")
    return CpuChoice(close, "near the cache disks")


def cpus_near(folders: Iterable[Path], root: Path = Path("/")) -> list[frozenset[int]]:
    """Return the CPUs of each folder's disk's NUMA node; empty if the machine does not report it.

    ``root`` is the folder with /proc and /sys.
    """
    mounts, sys = read_mounts(root / "proc/self/mountinfo"), root / "sys"
    found = []
    for folder in folders:
        device = block_device_of(str(folder), mounts, sys)
        node = numa_node_of(device, sys) if device is not None else None
        found.append(_cpus_of(sys / f"devices/system/node/node{node}/cpulist") if node is not None else frozenset())
    return found


def numa_node_of(device: Path, sys: Path, depth: int = 0) -> int | None:
    """Return the NUMA node of a block device, from the first parent device that reports one, or None."""
    parts = sorted((device / "slaves").iterdir()) if (device / "slaves").is_dir() else []
    if parts and depth < _MOST_DEPTH:
        nodes = {numa_node_of(part.resolve(), sys, depth + 1) for part in parts}
        return nodes.pop() if len(nodes) == 1 else None
    while device != device.parent and device != sys:
        for name in ("numa_node", "device/numa_node"):
            if (node := _number(device / name)) is not None and node >= 0:
                return node
        device = device.parent
    return None


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if re.fullmatch(r"-?[0-9]{1,4}", text) else None


def _cpus_of(path: Path) -> frozenset[int]:
    try:
        return parse_cpus(path.read_text())
    except (OSError, ValueError):
        return frozenset()


def usable_cpus() -> frozenset[int]:
    """Return the CPUs that this process may use in its cgroup."""
    return frozenset(os.sched_getaffinity(0))


def run_on(cpus: Iterable[int]) -> None:
    """Run the calling thread, and its future threads and processes, on these CPUs. Raises OSError."""
    os.sched_setaffinity(0, cpus)
