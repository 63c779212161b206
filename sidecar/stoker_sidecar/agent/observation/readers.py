"""The owner of a reading process: a pod, the sidecar, or unknown, from /proc."""

import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from stoker_sidecar.linux.mounts.pod_mounts import belongs_to

OURS: Final = "ours"
UNKNOWN: Final = ""
# Cached answers, and their lifetime in seconds: pids are reused.
_MOST, _SECONDS = 4096, 30.0
# Processes to look up at one time. The rest stays unknown, because a pod may start thousands.
_MOST_LOOKS = 64


class ReaderProcesses:
    """Identifies readers by pid, from /proc.

    ``family`` is the pid of the process that started the sidecar's processes.
    """

    def __init__(self, family: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._family = family
        self._clock = clock
        self._known: dict[int, tuple[float, str]] = {}

    def who(self, pids: Collection[int], pods: Collection[str]) -> dict[int, str]:
        """Return the owner of each pid: a UID of ``pods``, `OURS`, or `UNKNOWN`."""
        now = self._clock()
        looks = 0
        found: dict[int, str] = {}
        for pid in pids:
            seen, reader = self._known.get(pid, (float("-inf"), UNKNOWN))
            if now - seen > _SECONDS and looks < _MOST_LOOKS:
                looks += 1
                reader = self._look(pid, pods)
                self._remember(pid, now, reader)
            found[pid] = reader
        return found

    def processes(self) -> dict[str, list[int]]:
        """Return the processes with recent reads, by the UID of their pod."""
        now, found = self._clock(), dict[str, list[int]]()
        for pid, (seen, reader) in self._known.items():
            if now - seen <= _SECONDS and reader not in (OURS, UNKNOWN):
                found.setdefault(reader, []).append(pid)
        return found

    def _look(self, pid: int, pods: Collection[str]) -> str:
        if pid <= 0:
            return UNKNOWN
        if descends_from(pid, self._family):
            return OURS
        cgroups = cgroups_of(pid)
        return next((uid for uid in pods if belongs_to(cgroups, uid)), UNKNOWN)

    def _remember(self, pid: int, now: float, reader: str) -> None:
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[pid] = now, reader


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
