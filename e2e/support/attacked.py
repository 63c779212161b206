"""Stoker's processes during an attack: restarts, processes that ended, and the memory of agents."""

import re
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from e2e.support.world import SYSTEM, World

# The keeper's log lines about processes that ended unexpectedly.
_ENDED = re.compile(r"(?:agent|fetcher) (?:ended with code|has given no sign).*")


class AgentMemory:
    """Samples the memory of all agents on this machine within the context. ``most`` is the bytes of the largest one."""

    def __init__(self) -> None:
        self.most = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory of agents")

    def __enter__(self) -> "AgentMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stopping.wait(0.2):
            self.most = max([self.most, *map(_resident, _agents())])


def is_followed_by_a_variant(attack: pytest.Function) -> bool:
    """Return True if the next test is the same attack with other values."""
    items = attack.session.items
    following = items[items.index(attack) + 1 :][:1]
    return any(isinstance(item, pytest.Function) and item.function is attack.function for item in following)


def restarts(world: World) -> dict[str, int]:
    """Return the container restarts of the operator's and the sidecars' pods, by pod name.

    Pods that end belong to an earlier rollout.
    """
    pods = [*world.system_pods("operator"), *world.system_pods("sidecar")]
    return {
        pod["metadata"]["name"]: sum(one["restartCount"] for one in pod["status"]["containerStatuses"])
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
    }


def ended(world: World) -> list[str]:
    """Return the keepers' log lines about agents and fetchers that ended."""
    names = [pod["metadata"]["name"] for pod in world.system_pods("sidecar")]
    return [line for name in names for line in _ENDED.findall(world.kubectl("logs", name, "-n", SYSTEM))]


def _agents() -> list[Path]:
    found: list[Path] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"stoker_sidecar.agent" in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(process)
    return found


def _resident(process: Path) -> int:
    with suppress(OSError, StopIteration):
        lines = (process / "status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmRSS")).split()[1])
    return 0
