"""Detects each pod's framework from the libraries of its processes, if the sidecar sees the node's processes."""

import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from stoker_tuning.frameworks.signs import framework_of_libraries

_PROC = Path("/proc")
# Bytes to read of a process's list of mappings: some 10,000 entries; a training program has some 1,000.
_MOST_BYTES = 1 << 20
_PATH_AT = 5  # the sixth field of a line, which may contain spaces


def loaded_libraries(pid: int) -> frozenset[str]:
    """Return the paths of a process's mapped shared libraries; none if it is gone or invisible.

    They are paths in the process's mount namespace, and untrusted: a process can give them any names.
    """
    try:
        with (_PROC / str(pid) / "maps").open("rb") as file:
            return parse_maps(file.read(_MOST_BYTES))
    except OSError:
        return frozenset()


def parse_maps(data: bytes) -> frozenset[str]:
    """Parse the paths of shared libraries in /proc/PID/maps. Pure."""
    found = set()
    for line in data.splitlines():
        fields = line.split(None, _PATH_AT)
        if len(fields) > _PATH_AT and b".so" in fields[_PATH_AT]:
            found.add(os.fsdecode(fields[_PATH_AT]))
    return frozenset(found)


# Seconds between checks of a pod without a result, and their number: it may start with a download.
_AGAIN, _MOST_LOOKS = 60.0, 30
# Processes of a pod, and pods, per round: reading a list of mappings takes about a millisecond.
_MOST_PROCESSES, _MOST_PODS = 4, 16


class PodFrameworks:
    """Checks each pod's reading processes. ``found`` has the framework by UID of the pod, where it is known."""

    def __init__(
        self,
        libraries: Callable[[int], Collection[str]] = loaded_libraries,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._libraries = libraries
        self._clock = clock
        self._looks: dict[str, tuple[int, float]] = {}  # number of checks of a pod, and the time of the last one
        self.found: dict[str, str] = {}

    def look(self, processes: Mapping[str, Collection[int]], pods: Collection[str]) -> None:
        """Check pods with an unknown framework, and forget all except ``pods``. Blocks for milliseconds.

        ``processes`` has the reading processes by UID of the pod.
        """
        self.found = {uid: framework for uid, framework in self.found.items() if uid in pods}
        self._looks = {uid: looks for uid, looks in self._looks.items() if uid in pods}
        due = [uid for uid in processes if uid in pods and self._is_due(uid)]
        for uid in due[:_MOST_PODS]:
            self._looks[uid] = self._looks.get(uid, (0, 0.0))[0] + 1, self._clock()
            paths = {path for pid in sorted(processes[uid])[:_MOST_PROCESSES] for path in self._libraries(pid)}
            if framework := framework_of_libraries(paths):
                self.found[uid] = framework

    def _is_due(self, uid: str) -> bool:
        looks, last = self._looks.get(uid, (0, float("-inf")))
        return uid not in self.found and looks < _MOST_LOOKS and self._clock() - last >= _AGAIN
