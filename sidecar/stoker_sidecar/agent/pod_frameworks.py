"""Which framework each pod uses, by the libraries of its processes, where the sidecar sees the node's processes."""

import time
from collections.abc import Callable, Collection, Mapping

from stoker_sidecar.linux.loaded_libraries import loaded_libraries
from stoker_tuning.frameworks.libraries import framework_of_libraries

# Seconds until a pod that tells nothing is looked at again, and how often: it may begin with a download.
_AGAIN, _MOST_LOOKS = 60.0, 30
# Processes of a pod that are looked at in a round, and pods: reading a list of mappings takes about a millisecond.
_MOST_PROCESSES, _MOST_PODS = 4, 16


class PodFrameworks:
    """Looks at the processes that read of each pod. ``found``: the framework by UID of the pod, where it is known."""

    def __init__(
        self,
        libraries: Callable[[int], Collection[str]] = loaded_libraries,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._libraries = libraries
        self._clock = clock
        self._looks: dict[str, tuple[int, float]] = {}  # how often a pod was looked at, and when last
        self.found: dict[str, str] = {}

    def look(self, processes: Mapping[str, Collection[int]], pods: Collection[str]) -> None:
        """Look at pods whose framework is not known, and forget all others than ``pods``. Blocks for milliseconds.

        ``processes``: by UID of the pod, those that were seen to read.
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
