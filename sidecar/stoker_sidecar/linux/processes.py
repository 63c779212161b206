"""Who a process is, as /proc tells: of our own processes, of a pod, or nobody's that we know."""

import os
from pathlib import Path

_PROC = Path("/proc")
# Parents to follow: those of a fork of a zygote are few.
_GENERATIONS = 16


def cgroups_of(pid: int) -> str:
    """Return a process's lines of /proc/PID/cgroup; empty when it is gone or not seen."""
    try:
        return os.fsdecode((_PROC / str(pid) / "cgroup").read_bytes())
    except OSError:
        return ""


def descends_from(pid: int, ancestor: int) -> bool:
    """Tell whether a process is ``ancestor``, or was started by it or by one that was; no when it is gone."""
    for _ in range(_GENERATIONS):
        if pid == ancestor:
            return True
        if pid <= 1:
            return False
        pid = parent_of(pid)
    return False


def parent_of(pid: int) -> int:
    """Return which process started that one, or took it over; 0 when it is gone or not seen."""
    try:
        return int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0
