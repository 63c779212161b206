"""One start of the operator's work: its watches, kopf and reconcile loops, until it has nothing to do."""

import asyncio
import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from bench.coldstart.metering import TaskMeter
from bench.coldstart.objects import NAMESPACE
from bench.errors import BenchError
from stoker_kube.client import KubeClient
from stoker_operator import garbage, metrics
from stoker_operator.front_door import FrontDoor
from stoker_operator.leader import Leader
from stoker_operator.loop_watch import timed_loop
from stoker_operator.main import RECURSION_LIMIT, SWITCH_INTERVAL
from stoker_operator.mirror.state import ClusterState

LOOPS = ("datasets", "pods", "trainingjobs", "tuningprofiles")
_LOOK = 0.05  # seconds
_QUIET, _QUIET_SHARE = 1.0, 0.05  # quiet is who took less than this share of a CPU for so many seconds
_KEPT = 100  # looks
_PATIENCE = 300.0  # seconds


@dataclass(frozen=True)
class Start:
    """What one start took, CPU in seconds; ``parts`` by what took it, ``at`` until which moment."""

    parts: dict[str, float]
    at: dict[str, float]  # CPU seconds of the process at each moment
    seconds: float  # from the start of the work to quiet
    steps: dict[str, float]  # the longest of each part: CPU seconds
    blocked: float  # of the longest turn of the event loop: CPU seconds
    peak: int  # bytes in memory at most


def start(pipe: Connection, kubeconfig: Path) -> None:
    """Start, and send what it took."""
    imported = time.process_time()
    os.environ["KUBECONFIG"] = str(kubeconfig)
    sys.setrecursionlimit(RECURSION_LIMIT)
    sys.setswitchinterval(SWITCH_INTERVAL)
    turns: list[float] = []
    with asyncio.Runner(loop_factory=partial(timed_loop, lambda _, computed: turns.append(computed))) as runner:
        pipe.send(runner.run(_started(turns, imported)))


async def _started(turns: list[float], imported: float) -> Start:
    meter, began = TaskMeter(), time.monotonic()
    meter.install(asyncio.get_running_loop())
    state, stop = ClusterState(NAMESPACE), asyncio.Event()
    sparing = asyncio.create_task(garbage.keep_apart(), name="garbage")
    async with await KubeClient.connect(compressed=False) as kube:
        await asyncio.sleep(0)
        turns.clear()  # of reading the kubeconfig, which no pod has
        door = FrontDoor(kube, state)
        entering = asyncio.create_task(door.run(), name="front door")
        leading = asyncio.create_task(Leader(kube, state).run(door.wait_whole, stop), name="leader")
        looks = _Looks(imported)
        await looks.until_quiet()
        loop_time = time.thread_time()
        result = Start(
            parts=dict(meter.spent) | {"other of the loop": loop_time - imported - sum(meter.spent.values())},
            at=looks.at,
            steps=dict(meter.longest),
            seconds=looks.quiet_since - began,
            blocked=max(turns, default=0.0),
            peak=_peak(),
        )
        result.parts["imports"], result.parts["kopf's thread"] = imported, time.process_time() - loop_time
        stop.set()
        await leading
        for task in (entering, sparing):
            task.cancel()
    return result


class _Looks:
    """How far the start is, looked at again and again."""

    def __init__(self, imported: float) -> None:
        self.at = {"imported": imported}
        self.quiet_since = 0.0
        self._looks: list[tuple[float, float]] = []
        self._awaited = set(LOOPS)

    async def until_quiet(self) -> None:
        """Wait until all loops have made a pass, and there is nothing to do. Raises BenchError after too long."""
        end = time.monotonic() + _PATIENCE
        while not self._look():
            if time.monotonic() > end:
                raise BenchError(f"the operator was not quiet within {_PATIENCE:.0f} s; it came so far: {self.at}")
            await asyncio.sleep(_LOOK)

    def _look(self) -> bool:
        now, spent = time.monotonic(), time.process_time()
        for name in [name for name in self._awaited if _passes(name)]:
            self._awaited.remove(name)
            self.at[f"first pass of {name}"] = spent
        self._looks.append((now, spent))
        del self._looks[:-_KEPT]
        before = [one for one in self._looks if one[0] <= now - _QUIET]
        if not before or self._awaited or spent - before[-1][1] > _QUIET_SHARE * (now - before[-1][0]):
            return False
        self.quiet_since, self.at["quiet"] = before[-1]
        return True


def _passes(loop: str) -> float:
    samples = (one for metric in metrics.RECONCILE_SECONDS.labels(loop).collect() for one in metric.samples)
    return sum(float(one.value) for one in samples if one.name.endswith("_count"))


def _peak() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
