"""Measures the control plane at ascending sizes, in a cluster that grows."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice

from bench.errors import BenchError
from bench.measure import MIB
from bench.report import Row
from bench.scale import Plane
from bench.simulation import shape
from bench.simulation.cluster import SimulatedCluster
from bench.simulation.long_churn import LongChurn, memory_trend
from bench.simulation.operator_process import OperatorProcess
from bench.simulation.playing import Player
from bench.simulation.pod_runs import PodRuns
from bench.simulation.reviews import Asking, ask_apart, lone_webhook, webhook_call
from bench.simulation.samples import quantile
from bench.simulation.sightings import Sightings
from bench.simulation.spans import Meters, Span
from bench.simulation.waiting import LongWait
from bench.systems import LONE_WEBHOOK, PLAIN_CLIENT
from stoker_kube.api import Kube
from stoker_kube.resources import DATASETS
from stoker_operator.writes.write_budget import RATE

WORKLOAD = "control-plane"
OPERATOR, WEBHOOK, PODS, DATASET = "operator", "webhook", "pods", "Dataset"
_PATIENCE = 900.0  # seconds, in a small cluster
_WRITES_OF_ONE = 10  # writes that the operator may need for a node, at its limited rate
_REPORT_SECONDS = 60.0
_IDLE_SECONDS = 4.0
_TOGETHER, _APART = 8, 0.5  # changes that are counted together, and seconds between two: each has its own passes
# Nodes of a Dataset that all created pods read, compared with 3 for most Datasets.
_COPIES = (1, 10)
_CHURN = 0.1 / 60  # of the nodes, per second
_REVIEWS = 50.0  # per second
_NODES_OF_ONE = 5  # for each Dataset on a few nodes
MS = 1000.0


@dataclass
class Measurement:
    """A cluster with all its meters. Call ``size`` with ascending numbers of nodes."""

    cluster: SimulatedCluster
    player: Player
    operator: OperatorProcess
    kube: Kube
    seen: Sightings
    plane: Plane
    say: Callable[[str], None]
    keep: Callable[[Row], None] = lambda row: None  # gets each row when it is measured
    rows: list[Row] = field(default_factory=list)
    _nodes: int = 0
    _lost: int = 0  # number of lost Leases of the operator at the start of this size
    _sparse: int = 0
    _probes: int = 0
    _chance: random.Random = field(default_factory=lambda: random.Random(0))

    def __post_init__(self) -> None:
        self.seen.still = self.operator.running
        self._runs = PodRuns(self.cluster, self.kube, self.seen)
        self._meters = Meters(self.cluster, self.operator, self.player)

    async def size(self, nodes: int) -> None:
        """Grow the cluster to this size and measure it. Raises BenchError and HarnessError."""
        self.say(f"{nodes:,} nodes join")
        await asyncio.to_thread(self.cluster.grow, nodes)
        self._nodes, self._lost = nodes, self.operator.lost
        self.operator.expect(nodes)
        await self._until_played()
        churns = (self._churn, self._churn_long) if self.plane.long_churn else (self._churn,)
        for phase in (self._fill, self._probe, self._changes, *churns, self._pods, self._restart):
            await phase()

    @property
    def _patience(self) -> float:
        """Seconds to wait for rest: writes for all nodes have a fixed rate."""
        return _PATIENCE + _WRITES_OF_ONE * self._nodes / RATE

    @property
    def _case(self) -> str:
        return f"{self._nodes:,} nodes, {self._sparse + self.plane.everywhere:,} Datasets"

    def _honest(self) -> list[str]:
        tempers = ((index, shape.temper(index)) for index in range(self._nodes))
        return [shape.node_name(index) for index, temper in tempers if temper is shape.Temper.HONEST]

    def _row(self, system: str, unit: str, samples: Iterable[float], note: str = "") -> None:
        row = Row(WORKLOAD, self._case, system, unit, tuple(samples), note=note)
        self.say(f"  {system}: {row.median:.4g} {unit}")
        self.rows.append(row)
        self.keep(row)

    async def _until_played(self) -> None:
        wait = LongWait("nodes with a NodeCache", self._nodes, self.say)
        while not wait.look((await asyncio.to_thread(self.player.ask))["nodes"]):
            await asyncio.to_thread(self.operator.keep)
            await asyncio.sleep(0.5)

    async def _fill(self) -> None:
        """Apply Datasets, one for five nodes in addition to those on all nodes. Wait until all are warm."""
        await asyncio.to_thread(lambda: self.player.ask(nonsense=True))
        sparse = self._nodes // _NODES_OF_ONE
        bodies = [shape.dataset(f"some-{index:04d}", 3) for index in range(self._sparse, sparse)]
        if not self._sparse:
            bodies += [shape.dataset(f"every-{index:02d}", "all") for index in range(self.plane.everywhere)]
        self.say(f"{len(bodies):,} Datasets are applied")
        before, began = await self._meters.read(), time.monotonic()
        await asyncio.to_thread(self.cluster.create, bodies, "Dataset", "stoker.dev/v1alpha1")
        self._sparse = sparse
        await self._until_filled()
        seconds, span = time.monotonic() - began, await self._meters.since(before)
        self._row(DATASET, "s until all lie warm", (seconds,), f"{self.plane.warming:g} s of it warming, as played")
        lost = self.operator.lost - self._lost
        self._row(OPERATOR, "times that it lost its Lease until then", (float(lost),))
        if lost:
            return  # the counter has exited
        self._row(OPERATOR, "CPU s until all lie warm", (span.cpu,), span.beside())
        self._writes(span, "until all lie warm")

    async def _until_filled(self) -> None:
        wanted = {f"every-{index:02d}": shape.honest(self._nodes) for index in range(self.plane.everywhere)}
        wanted |= {f"some-{index:04d}": 3 for index in range(self._sparse)}
        wait, known = LongWait("copies of Datasets that are whole", sum(wanted.values()), self.say), self.seen.datasets

        def done() -> int:
            return sum(min(known[name].done, most) for name, most in wanted.items() if name in known)

        while not wait.look(done()):
            await asyncio.to_thread(self.operator.keep)
            await asyncio.sleep(0.25)

    async def _probe(self) -> None:
        """Apply one more Dataset repeatedly. Follow each until it is Ready."""
        await self._quiet()
        taken = []
        for _ in range(self.plane.probes):
            self._probes += 1
            async with self._applied(f"probe-{self._probes:03d}", 3) as seconds:
                taken.append(seconds)
        note = f"{self.plane.warming:g} s of it warming, and 0.5 s listing, as played"
        self._row(DATASET, "s from applied to Ready", taken, note)

    @asynccontextmanager
    async def _applied(self, name: str, replicas: int) -> AsyncIterator[float]:
        """Apply a Dataset within the context. Yield the seconds until it was Ready."""
        known, began = self.seen.datasets, time.monotonic()
        await self.kube.create(DATASETS, shape.dataset(name, replicas, probe=True))
        await self.seen.until("a Dataset to be Ready", partial(self.seen.is_ready, name), self._patience)
        yield time.monotonic() - began
        await self.kube.delete(DATASETS, name, shape.WORK)
        await self.seen.until("a Dataset to be gone", lambda: name not in known, self._patience)

    async def _changes(self) -> None:
        """Let some nodes report in sequence, repeatedly, and measure an idle operator in between.

        One report costs less than the bursts of the operator's own work in the second around it. So several reports are
        counted together, and compared with the idle windows directly before and after them.
        """
        await self._quiet()
        await asyncio.to_thread(lambda: self.player.ask(hasty=True))  # one report at a time: its turn does not matter
        honest = self._honest()
        nodes = cycle(self._chance.sample(honest, len(honest)))
        idle = [await self._idle()]
        spent = await self._costs(lambda node: self.player.ask(shift=[node]), 1, nodes, idle)
        self._row(OPERATOR, "CPU ms of one report of free space", spent, f"of {_TOGETHER} after each other")
        spent = await self._costs(lambda node: self.player.ask(lose=[node]), 2, nodes, idle)
        self._row(OPERATOR, "CPU ms of one refetch", spent, "two reports, and what the Dataset says of them")
        self._row(OPERATOR, "% of a CPU while nothing happens", [100 * one for one in idle])
        await asyncio.to_thread(lambda: self.player.ask(hasty=False))

    async def _costs(
        self, change: Callable[[str], object], reports: int, nodes: Iterator[str], idle: list[float]
    ) -> list[float]:
        """Return the operator's CPU milliseconds for a change of one node, for each group of nodes.

        Sidecars write ``reports`` statuses per change. ``idle`` gets the CPU share of each window in between.
        """
        costs = []
        for _ in range(self.plane.changes):
            began, cpu = time.monotonic(), self.operator.cpu()
            before = await asyncio.to_thread(self.player.written)
            changed = list(islice(nodes, _TOGETHER))
            for node in changed:
                await asyncio.to_thread(change, node)
                await asyncio.sleep(_APART)
            await self._until_written(before + reports * len(changed))
            await self._quiet()
            taken, spent = time.monotonic() - began, self.operator.cpu() - cpu
            idle.append(await self._idle())
            costs.append(MS * (spent - taken * (idle[-2] + idle[-1]) / 2) / len(changed))
        return costs

    async def _until_written(self, reports: int) -> None:
        began = time.monotonic()
        while await asyncio.to_thread(self.player.written) < reports:
            if time.monotonic() - began > _REPORT_SECONDS:
                raise BenchError("a played sidecar does not report")
            await asyncio.sleep(0.1)

    async def _idle(self) -> float:
        """Return the operator's CPU share without changes."""
        began, cpu = time.monotonic(), self.operator.cpu()
        await asyncio.sleep(_IDLE_SECONDS)
        return (self.operator.cpu() - cpu) / (time.monotonic() - began)

    async def _churn(self) -> None:
        """Let a tenth of the nodes per minute fetch data again, with constant requests to the webhook."""
        await asyncio.to_thread(lambda: self.player.ask(nonsense=True))
        asking = Asking("every-00", _REVIEWS, self.plane.churn_seconds)
        losing = asyncio.create_task(self._lose_again_and_again())
        try:
            before = await self._meters.read()
            taken = await ask_apart(await webhook_call(self.kube, self.cluster.address), asking)
            span = await self._meters.since(before)
            with lone_webhook(asking.dataset) as lone:
                taken_alone = await ask_apart(lone, asking)
        finally:
            losing.cancel()
        self._answers(WEBHOOK, taken)
        self._answers(LONE_WEBHOOK, taken_alone)
        self._row(OPERATOR, "% of a CPU under churn", (100 * span.cpu / span.seconds,), span.beside())
        self._row(OPERATOR, "s of the longest pass", (span.longest_pass(),), "at most")
        self._writes(span, "under churn")

    def _answers(self, who: str, taken: list[float]) -> None:
        self._row(who, "ms, p50", (MS * quantile(taken, 0.50),), f"{len(taken):,} at {_REVIEWS:g} a second")
        self._row(who, "ms, p99", (MS * quantile(taken, 0.99),))

    async def _lose_again_and_again(self) -> None:
        honest = self._honest()
        while True:
            await asyncio.to_thread(lambda: self.player.ask(lose=[self._chance.choice(honest)]))
            await asyncio.sleep(1 / (_CHURN * self._nodes))

    async def _churn_long(self) -> None:
        """Change nodes, pods and spot nodes for the requested time. Measure the operator's memory."""
        await self._quiet()
        names = [f"some-{index:04d}" for index in range(self._sparse)]
        churn = LongChurn(self.cluster, self.player, self.operator, self._runs, self.say)
        before = await self._meters.read()
        samples, replaced, pods = await churn.run(self._honest(), names, self.plane.long_churn)
        span = await self._meters.since(before)
        trend = memory_trend(samples)
        of_it = f"{pods:,} pods came and went, {replaced:,} nodes were replaced"
        self._row(OPERATOR, "MB RSS under long churn", [size / MIB for _, size in samples], of_it)
        note = f"{trend.says}; in {span.seconds / 60:.0f} minutes, the first quarter left out"
        self._row(OPERATOR, "MB RSS more an hour, under long churn", (trend.bytes_an_hour / MIB,), note)
        self._writes(span, "under long churn")

    def _writes(self, span: Span, when: str) -> None:
        ours = (span.operator_writes + span.reports) / span.seconds
        note = f"of it the operator {span.operator_writes / span.seconds:.1f}"
        self._row("operator and sidecars", f"writes/s {when}", (ours,), note)
        self._row("API server", f"writes/s {when}", (span.server_writes / span.seconds,), "of all clients")

    async def _pods(self) -> None:
        """Make pods: first at a fixed rate, then for one Dataset that all of them wait for."""
        await self._quiet()
        names = [f"some-{index:04d}" for index in range(self._sparse)]
        figures = await self._runs.stream(names, self.plane.pods)
        self._row(PODS, "s from created to released, p50", (quantile(figures.released, 0.5),), "50 a second")
        self._row(PODS, "s from created to released, p99", (quantile(figures.released, 0.99),))
        self._row(PODS, "s from created to bound, p99", (quantile(figures.bound, 0.99),))
        self._row(PODS, "% on warm nodes", (100 * figures.warm_share,), "of Datasets with 3 replicas, in turn")
        for copies in _COPIES:
            await self._land(copies)
        self._probes += 1
        before = await self._meters.read()
        rate = await self._runs.burst(f"probe-{self._probes:03d}", self.plane.pods)
        wrote = (await self._meters.since(before)).operator_wrote()
        note = f"{self.plane.pods:,} pods that wait for one Dataset; from their making on the operator wrote {wrote}"
        self._row(PODS, "released/s once warm", (rate,), note)
        note = "with a gate of no meaning that a plain client takes off"
        self._row(PLAIN_CLIENT, "released/s once warm", (await self._runs.plain_burst(self.plane.pods),), note)

    async def _land(self, copies: int) -> None:
        """Make this number of pods of one Dataset on this number of nodes."""
        name = f"copies-{copies:02d}"
        async with self._applied(name, copies):
            figures = await self._runs.stream([name], self.plane.pods)
        note = f"{self.plane.pods:,} pods of one Dataset"
        self._row(PODS, f"% on warm nodes, of which there are {copies}", (100 * figures.warm_share,), note)

    async def _restart(self) -> None:
        """Kill the operator. Follow its successor until it leads and is idle."""
        await self._quiet()
        self._row(OPERATOR, "MB RSS at most", (self.operator.peak() / MIB,))
        await asyncio.to_thread(self.operator.kill)
        self._row(OPERATOR, "s from kill -9 until another leads", (await asyncio.to_thread(self.operator.start),))
        quiet = await asyncio.to_thread(self.operator.wait_steady, self._patience)
        self._row(OPERATOR, "s from leading to quiet", (quiet,), "after a cold start")
        self._row(OPERATOR, "CPU s of a cold start", (self.operator.cpu(),), "until it is quiet")
        self._row(OPERATOR, "writes of a cold start", (self.operator.writes(),))

    async def _quiet(self) -> None:
        """Silence wrong sidecars. Wait until no sidecar changes and the operator is idle."""
        began = time.monotonic()
        while (await asyncio.to_thread(lambda: self.player.ask(nonsense=False)))["busy"]:
            if time.monotonic() - began > self._patience:
                raise BenchError("the played sidecars do not come to rest")
            await asyncio.sleep(0.2)
        await asyncio.to_thread(self.operator.wait_quiet, self._patience)
