"""Whose process it is that reads: of a pod, of the sidecar itself, or unknown."""

import time
from collections.abc import Callable, Collection
from typing import Final

from stoker_sidecar.linux.pod_mounts import belongs_to
from stoker_sidecar.linux.processes import cgroups_of, descends_from

OURS: Final = "ours"
UNKNOWN: Final = ""
# Answers that are remembered, and for how long: pids are used again.
_MOST, _SECONDS = 4096, 30.0
# Processes that are looked up at one time: the rest stays unknown, since someone may start thousands.
_MOST_LOOKS = 64


class ReaderProcesses:
    """Tells readers by their pid, from /proc. ``family``: pid of the process that started all of the sidecar's."""

    def __init__(self, family: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._family = family
        self._clock = clock
        self._known: dict[int, tuple[float, str]] = {}

    def who(self, pids: Collection[int], pods: Collection[str]) -> dict[int, str]:
        """Return by pid the UID of ``pods`` that it belongs to, `OURS`, or `UNKNOWN`."""
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
        """Return the processes that were seen to read lately, by the UID of their pod."""
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
