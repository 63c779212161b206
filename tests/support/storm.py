"""Kills processes of a sidecar at random, one at a time or all at once, but never the keeper."""

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.waiting import wait_until

# Every so often everything is killed together.
_ALL_EVERY = 8
_EVERYTHING = "everything"


class Storm:
    """A storm of kills among ``processes``, the PIDs of all current victims. ``killed`` counts by kind."""

    def __init__(self, processes: Callable[[], Sequence[int]], seed: int = 1) -> None:
        self.killed: Counter[str] = Counter()
        self._processes = processes
        self._chance = random.Random(seed)
        self._count = 0

    def strike(self) -> None:
        """Kill with SIGKILL: one process of a kind chosen at random, or all.

        Waits for a victim: all may be gone since the last strike, while reads of cached files do not need them. Raises
        TimeoutError.
        """
        self._count += 1
        kinds = self._kinds()
        if self._count % _ALL_EVERY == 0:
            victims = [pid for pids in kinds.values() for pid in pids]
            self.killed[_EVERYTHING] += 1
        else:
            kind = self._chance.choice(sorted(kinds))
            victims = [self._chance.choice(kinds[kind])]
            self.killed[kind] += 1
        for pid in victims:
            with suppress(ProcessLookupError):  # it ended before the kill
                os.kill(pid, signal.SIGKILL)

    def _kinds(self) -> dict[str, list[int]]:
        """Wait for processes. Return their PIDs by kind."""
        kinds: dict[str, list[int]] = {}

        def look() -> bool:
            for pid in self._processes():
                kinds.setdefault(kind_of(pid), []).append(pid)
            return bool(kinds)

        wait_until(look)
        return kinds


def kind_of(pid: int) -> str:
    """Return the kind of the process: its name, or the module that it runs. Empty if it is gone."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return name if name.startswith("stoker-") else next((word for word in words if word.startswith("stoker_")), name)
