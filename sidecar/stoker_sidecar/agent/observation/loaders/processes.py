"""The origin of a process, from /proc: the sidecar, a pod, or unknown."""

import os
from pathlib import Path

_PROC = Path("/proc")
# Parents to follow: a fork of a zygote has few.
_GENERATIONS = 16


def cgroups_of(pid: int) -> str:
    """Return a process's lines of /proc/PID/cgroup; empty if it is gone or invisible."""
    try:
        return os.fsdecode((_PROC / str(pid) / "cgroup").read_bytes())
    except OSError:
        return ""


def descends_from(pid: int, ancestor: int) -> bool:
    """Return True if a process is ``ancestor`` or a descendant of it; False if it is gone."""
    for _ in range(_GENERATIONS):
        if pid == ancestor:
            return True
        if pid <= 1:
            return False
        pid = parent_of(pid)
    return False


def parent_of(pid: int) -> int:
    """Return the parent process; 0 if it is gone or invisible."""
    try:
        return int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0
