"""A long churn of data, pods and nodes in a cluster, and the trend of the operator's memory."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import linear_regression, median

from bench.measure import MIB, memory
from bench.simulation.cluster import SimulatedCluster
from bench.simulation.operator_process import OperatorProcess
from bench.simulation.playing import Player
from bench.simulation.pod_runs import PodRuns

# of the nodes, per second: the shares that fetch data again, and that are replaced
_LOSSES, _REPLACED = 0.1 / 60, 0.01 / 60
_PODS, _POD_SECONDS = 50, 10.0  # number of pods made within about a second, and the seconds between such bursts
_SAMPLE_SECONDS, _SAY_SAMPLES = 5.0, 12
_HOUR = 3600.0
_SETTLING = 0.25  # share of the time in which caches fill: it does not predict later growth
_FLAT = 0.05  # share of its memory per hour: the noise of a run of some minutes
_SHORT = 600.0  # seconds: in a shorter run, noise exceeds that
Samples = list[tuple[float, float]]  # seconds on the monotonic clock, and bytes


@dataclass
class LongChurn:
    """A cluster with warm Datasets, and its changes. ``run`` makes them."""

    cluster: SimulatedCluster
    player: Player
    operator: OperatorProcess
    runs: PodRuns
    say: Callable[[str], None]
    _replaced: int = 0
    _pods: int = 0
    _chance: random.Random = field(default_factory=lambda: random.Random(1))

    async def run(self, nodes: Sequence[str], datasets: Sequence[str], seconds: float) -> tuple[Samples, int, int]:
        """Return samples of the operator's memory, and the numbers of replaced nodes and created pods.

        Raises BenchError and HarnessError.
        """
        self.say(f"churn for {seconds:,.0f} s: {len(nodes):,} nodes, pods of {len(datasets):,} Datasets")
        changing = (self._lose(nodes), self._replace(nodes), self._make_pods(datasets))
        changes = [asyncio.create_task(change) for change in changing]
        try:
            samples = await self._sampled(seconds, changes)
        finally:
            for change in changes:
                change.cancel()
            await asyncio.gather(*changes, return_exceptions=True)
        await self.runs.clear()
        return samples, self._replaced, self._pods

    async def _sampled(self, seconds: float, changes: Sequence[asyncio.Task[None]]) -> Samples:
        samples: Samples = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # First, because it raises the log of an ended process: without the webhook, no pod can be created.
            samples.append((time.monotonic(), float(memory(self.operator.pid).rss)))
            for change in changes:
                if change.done():
                    change.result()  # raises the error of the task: no task ends normally
            if len(samples) % _SAY_SAMPLES == 0:
                self.say(f"  operator: {samples[-1][1] / MIB:.1f} MB; {self._pods:,} pods so far")
            await asyncio.sleep(_SAMPLE_SECONDS)
        return samples

    async def _lose(self, nodes: Sequence[str]) -> None:
        while True:
            await asyncio.sleep(1 / (_LOSSES * len(nodes)))
            await asyncio.to_thread(lambda: self.player.ask(lose=[self._chance.choice(nodes)]))

    async def _replace(self, nodes: Sequence[str]) -> None:
        while True:
            await asyncio.sleep(1 / (_REPLACED * len(nodes)))
            await asyncio.to_thread(self.cluster.replace, self._chance.choice(nodes))
            self._replaced += 1

    async def _make_pods(self, datasets: Sequence[str]) -> None:
        while True:
            began = time.monotonic()
            await self.runs.pass_by(self._chance.sample(datasets, min(_PODS, len(datasets))), _PODS)
            self._pods += _PODS
            await asyncio.sleep(max(0.0, began + _POD_SECONDS - time.monotonic()))


@dataclass(frozen=True)
class MemoryTrend:
    """The change of memory, from the least-squares line through its samples. ``flat`` is None for a short run."""

    bytes_an_hour: float
    median: float
    flat: bool | None

    @property
    def says(self) -> str:
        """The verdict in words."""
        if self.flat is None:
            return f"too short a run to say whether it is flat: that takes {_SHORT / 60:.0f} minutes"
        return "flat" if self.flat else f"not flat: more than {_FLAT:.0%} of it an hour"


def memory_trend(samples: Sequence[tuple[float, float]]) -> MemoryTrend:
    """Return the trend of ordered samples (seconds, bytes), without the first quarter of the time.

    Raises ValueError if fewer than two samples remain.
    """
    first, last = samples[0][0], samples[-1][0]
    later = [one for one in samples if one[0] >= first + _SETTLING * (last - first)]
    if len(later) < 2 or first == last:
        raise ValueError("a trend takes two samples at least, at different moments")
    slope, _ = linear_regression([at for at, _ in later], [size for _, size in later])
    middle = median(size for _, size in later)
    flat = None if last - first < _SHORT else slope * _HOUR <= _FLAT * middle
    return MemoryTrend(slope * _HOUR, middle, flat)
