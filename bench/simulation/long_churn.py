"""A cluster that changes for a long time: data is fetched anew, pods come and go, and so do nodes."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.measure import MIB, memory
from bench.simulation.cluster import SimulatedCluster
from bench.simulation.operator_process import OperatorProcess
from bench.simulation.playing import Player
from bench.simulation.pod_runs import PodRuns

_LOSSES, _REPLACED = 0.1 / 60, 0.01 / 60  # of the nodes, a second: that fetch something anew, and that are replaced
_PODS, _POD_SECONDS = 50, 10.0  # made within a second or so, every so many seconds
_SAMPLE_SECONDS, _SAY_SAMPLES = 5.0, 12
Samples = list[tuple[float, float]]  # seconds on the monotonic clock, and bytes


@dataclass
class LongChurn:
    """A cluster whose Datasets are warm, and what changes it; ``run`` does so."""

    cluster: SimulatedCluster
    player: Player
    operator: OperatorProcess
    runs: PodRuns
    say: Callable[[str], None]
    _replaced: int = 0
    _pods: int = 0
    _chance: random.Random = field(default_factory=lambda: random.Random(1))

    async def run(self, nodes: Sequence[str], datasets: Sequence[str], seconds: float) -> tuple[Samples, int, int]:
        """Return samples of the operator's memory, and how many nodes were replaced and pods were made.

        Raises BenchError, HarnessError.
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
            # First, for it raises the log of one that ended: without its webhook no pod can be made, either.
            samples.append((time.monotonic(), float(memory(self.operator.pid).rss)))
            for change in changes:
                if change.done():
                    change.result()  # raises what ended it: none ends by itself
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
