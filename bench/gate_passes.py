"""What decisions on held pods cost by the size of the cluster: the first pass, one change after it, and releases.

Nothing but the decisions: no API server, no watch, no write. The decisions follow changes, so a pass is measured twice:
on everything (as after a start), and after one change of each kind.
"""

import json
import math
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from stoker_api import names as api_names
from stoker_api.dataset import Dataset
from stoker_api.nodecache import NodeCache
from stoker_operator.core.gating import Gating
from stoker_operator.core.release_decisions import Outcome
from stoker_operator.core.resources import Resources
from stoker_operator.core.views import NodeView, PodView
from stoker_operator.work_turns import SLICE

GATE_SIZES = (100, 500, 1000, 2500, 5000)  # nodes
WARM_NODES = (1, 3, 10)
PODS = 1000  # held, where they may go
ROOM = 100  # pods that a warm node takes
NOW = 1030.0  # seconds since the epoch, half a minute after the pods were made
_TIMES = 31  # measurements of one change, of which the median counts
_GIB = 1 << 30
_VERSION = "d" * 64


@dataclass(frozen=True)
class FullCost:
    """Seconds in a cluster of so many full nodes, all warm, and as many pods that are held for one of them.

    ``longest``: for which work on the event loop gives nobody else a turn. CPU seconds, as all the figures here: a busy
    machine adds to none of them.
    """

    nodes: int
    told: float  # everything, as at a start
    first_pass: float
    longest: float
    idle_pass: float
    report: float
    pod_ends: float
    pod_comes: float
    node_changes: float


@dataclass(frozen=True)
class ReleaseCost:
    """What it takes to let pods go to some warm nodes of many."""

    nodes: int
    warm: int
    released: int
    warm_ones: int  # of the released: those that go to warm nodes alone
    seconds: float
    longest: float

    @property
    def rate(self) -> float:
        """Releases a second."""
        return self.released / self.seconds


class _Slices:
    """Runs work as the operator does, and keeps the longest time for which it gave nobody a turn."""

    def __init__(self) -> None:
        self.longest: float = 0.0

    def run(self, work: Generator[None, None, Outcome]) -> Outcome:
        began = time.process_time()
        while True:
            try:
                next(work)
            except StopIteration as end:
                self._note(began)
                outcome: Outcome = end.value
                return outcome
            if time.process_time() - began >= SLICE:
                self._note(began)
                began = time.process_time()

    def _note(self, began: float) -> None:
        self.longest = max(self.longest, time.process_time() - began)


class _Cluster:
    """A gating that was told of a cluster."""

    def __init__(self, nodes: Iterable[NodeView], caches: Iterable[NodeCache], pods: Iterable[PodView]) -> None:
        self.gating: Final = Gating()
        self.slices: Final = _Slices()
        dataset = dataset_of_gate()
        self.gating.put_dataset(dataset.key, dataset)
        for cache in caches:
            self.gating.put_cache(cache.metadata.name, cache)
        for node in nodes:
            self.gating.put_node(node.name, node, NOW)
        for pod in pods:
            self.gating.put_pod(pod.key, pod)

    def decide(self) -> Outcome:
        return self.slices.run(self.gating.decide(NOW))

    def after(self, change: Callable[[int], None]) -> float:
        """Return the median seconds of a change and its pass; pods that go are bound before the next."""
        return median(self._after_one(change, number) for number in range(_TIMES))

    def _after_one(self, change: Callable[[int], None], number: int) -> float:
        began = time.process_time()
        change(number)
        outcome = self.decide()
        seconds = time.process_time() - began
        for release in outcome.releases:
            bound = replace(release.pod, gates=(), node=release.nodes[0].node, phase="Running")
            self.gating.put_pod(bound.key, bound)
        self.decide()
        return seconds


def measure_gate(sizes: Sequence[int]) -> tuple[list[FullCost], list[ReleaseCost]]:
    """Measure each size once."""
    full = [_full(size) for size in sizes]
    releases = [_releases(size, warm) for size in sizes for warm in WARM_NODES if warm <= size]
    return full, releases


def show_gate(full: Sequence[FullCost], releases: Sequence[ReleaseCost], result: Path) -> str:
    """Write the figures as JSON, and return them as tables, in milliseconds, with the exponents of the growth."""
    result.parent.mkdir(parents=True, exist_ok=True)
    figures = {"full": [asdict(cost) for cost in full], "releases": [asdict(cost) for cost in releases]}
    result.write_text(json.dumps(figures, indent=1))
    kinds = list(asdict(full[0]))[1:]
    rows = [("full nodes = held pods", *(kind.replace("_", " ") for kind in kinds))]
    rows += [(f"{cost.nodes:,}", *(f"{asdict(cost)[kind] * 1e3:.2f} ms" for kind in kinds)) for cost in full]
    rows += [("exponent", *(f"{_exponent(full, kind):.2f}" for kind in kinds))] if len(full) > 1 else []
    second = [("nodes", "warm", "released", "of these warm", "pass", "longest", "releases/s")]
    second += [
        (
            f"{cost.nodes:,}",
            str(cost.warm),
            str(cost.released),
            str(cost.warm_ones),
            f"{cost.seconds * 1e3:.0f} ms",
            f"{cost.longest * 1e3:.0f} ms",
            f"{cost.rate:,.0f}",
        )
        for cost in releases
    ]
    return "\n".join([*map(_line, rows), "", f"{PODS} pods, room for {ROOM} on a warm node", *map(_line, second)])


def _line(cells: Iterable[str]) -> str:
    return "  ".join(f"{cell:>13}" for cell in cells)


def _full(size: int) -> FullCost:
    names = [f"n{index:05}" for index in range(size)]
    caches = {name: holding_node(name) for name in names}
    running = [_running(name) for name in names]
    cluster: list[_Cluster] = []
    pods = [*running, *(held_pod(index, cores=4) for index in range(size))]
    told = _seconds(lambda: cluster.append(_Cluster(map(node_of_gate, names), caches.values(), pods)))
    one = cluster[0]
    first_pass = _seconds(one.decide)
    gating = one.gating
    return FullCost(
        size,
        told,
        first_pass,
        one.slices.longest,
        one.after(lambda _: None),
        one.after(lambda number: gating.put_cache(names[0], holding_node(names[0], warm_bytes=number))),
        one.after(lambda number: _end(gating, running[number % size])),
        one.after(lambda number: gating.put_pod(f"vision/new{number}", held_pod(size + number, cores=4))),
        one.after(
            lambda number: gating.put_node(names[1], replace(node_of_gate(names[1]), schedulable=number % 2 == 0), NOW)
        ),
    )


def _end(gating: Gating, pod: PodView) -> None:
    gating.put_pod(pod.key, replace(pod, phase="Succeeded"))


def _releases(size: int, warm: int) -> ReleaseCost:
    names = [f"n{index:05}" for index in range(size)]
    nodes = [replace(node_of_gate(name), allocatable=Resources(cpu_milli=1000 * ROOM, pods=ROOM)) for name in names]
    caches = [holding_node(name) for name in names[:: max(1, size // warm)][:warm]]
    one = _Cluster(nodes, caches, [held_pod(index) for index in range(PODS)])
    outcomes: list[Outcome] = []
    seconds = _seconds(lambda: outcomes.append(one.decide()))
    released = outcomes[0].releases
    warm_ones = [one for one in released if one.nodes and all(node.warmth.warm for node in one.nodes)]
    return ReleaseCost(size, warm, len(released), len(warm_ones), seconds, one.slices.longest)


def dataset_of_gate() -> Dataset:
    """Make the Dataset that all pods here wait for."""
    spec = {"source": {"uri": "s3://bucket/"}, "cache": {"replicas": "all"}}
    status = {"version": _VERSION, "bytes": _GIB}
    metadata = {"namespace": "vision", "name": "set", "uid": "set"}
    return Dataset.model_validate({"metadata": metadata, "spec": spec, "status": status})


def holding_node(node: str, warm_bytes: int = _GIB) -> NodeCache:
    """Make the NodeCache of a node that has so much of it."""
    phase = "Warm" if warm_bytes == _GIB else "Warming"
    row = {"namespace": "vision", "name": "set", "uid": "set", "phase": phase, "version": _VERSION, "bytes": _GIB}
    return NodeCache.model_validate(
        {"metadata": {"name": node}, "status": {"datasets": [row | {"warmBytes": warm_bytes}]}}
    )


def node_of_gate(name: str) -> NodeView:
    """Make a node that one of the large pods fills."""
    return NodeView(name, allocatable=Resources(cpu_milli=4000, pods=110), sidecar_ready=True)


def held_pod(index: int, cores: int = 1) -> PodView:
    """Make a pod that is held."""
    return PodView(
        "vision",
        f"p{index:05}",
        uid=f"p{index}",
        requests=Resources(cpu_milli=1000 * cores, pods=1),
        gates=(api_names.GATE_WARM,),
        managed=True,
        datasets="set:/data",
        created=NOW - 30.0,
    )


def _running(node: str) -> PodView:
    requests = Resources(cpu_milli=4000, pods=1)
    return PodView("vision", f"busy-{node}", uid=f"busy-{node}", node=node, phase="Running", requests=requests)


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _exponent(costs: Sequence[FullCost], kind: str) -> float:
    """Return the slope of the cost over the size, both as logarithms, by least squares."""
    points = [(math.log(cost.nodes), math.log(max(asdict(cost)[kind], 1e-7))) for cost in costs]
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope: float = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return slope
