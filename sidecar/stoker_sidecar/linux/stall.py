"""What the kernel counts of a pod's waiting for its disks: pressure of its cgroup, or delays of its tasks."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stoker_sidecar.linux.pod_mounts import belongs_to

_PROC = Path("/proc")
_DELAYS_ON = _PROC / "sys/kernel/task_delayacct"
# Levels of cgroups between the root and a pod's, of all drivers: kubelet.slice, kubepods, the class, the pod.
_DEPTH = 4
_ABOVE_PODS = ("kubelet", "kubepods", "burstable", "besteffort")
_BLKIO_TICKS = 39  # field 42 of proc_pid_stat(5), counted from the third, which follows the name
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def find_pod_cgroup(root: Path, pod_uid: str) -> Path | None:
    """Find a pod's cgroup below the cgroup v2 file system at ``root``; None where there is none or it is not seen."""
    if not pod_uid:
        return None
    return next(_pod_cgroups(root, pod_uid, _DEPTH), None)


def _pod_cgroups(folder: Path, pod_uid: str, depth: int) -> Iterator[Path]:
    try:
        names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    except OSError:
        return
    for name in names:
        if belongs_to(name, pod_uid):
            yield folder / name
        elif depth > 1 and name.startswith(_ABOVE_PODS):
            yield from _pod_cgroups(folder / name, pod_uid, depth - 1)


def disk_pressure(cgroup: Path) -> float | None:
    """Return the seconds so far in which no task of a cgroup went on since it waited for a disk; None: not counted."""
    try:
        text = (cgroup / "io.pressure").read_text()
    except OSError:
        return None
    return parse_pressure(text)


def parse_pressure(text: str) -> float | None:
    """Read the total of the line ``full`` of a pressure file, in seconds. Pure."""
    for line in text.splitlines():
        kind, *words = line.split()
        total = words[-1].removeprefix("total=") if words else ""
        if kind == "full" and total.isdecimal():
            return int(total) / 1e6
    return None


def delays_counted() -> bool:
    """Tell whether the kernel counts delays of tasks: sysctl kernel.task_delayacct."""
    try:
        return _DELAYS_ON.read_text().strip() == "1"
    except OSError:
        return False


def task_delays(pod_uid: str) -> dict[str, float]:
    """Return the seconds that each process of a pod, by pid, waited for disks so far, of those that are seen."""
    found = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it ended while we looked
                if belongs_to(os.fsdecode((entry / "cgroup").read_bytes()), pod_uid):
                    found[entry.name] = parse_delay((entry / "stat").read_text())
    return found


def parse_delay(stat: str) -> float:
    """Read a process's delay by disks from its stat file, in seconds. Pure."""
    return int(stat.rpartition(")")[2].split()[_BLKIO_TICKS]) / _TICKS_A_SECOND
