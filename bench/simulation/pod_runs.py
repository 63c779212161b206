"""Pods in the hundreds: how long they are gated, and the share placed on nodes with their data."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from bench.errors import BenchError
from bench.simulation import shape
from bench.simulation.cluster import SimulatedCluster
from bench.simulation.sightings import SeenPod, Sightings
from stoker_kube.api import Kube, Object
from stoker_kube.resources import DATASETS, PODS

_AT_ONCE = 50
_UNGATED_AT_ONCE = 20  # concurrency: as the operator has for one namespace
_PATIENCE = 600.0
_STREAM = 50.0  # pods a second
_PASSING = 60.0  # seconds until pods without a gate are bound


@dataclass(frozen=True)
class PodFigures:
    """Seconds from creation for each pod, and the share of pods that were bound to a warm node."""

    released: tuple[float, ...]
    bound: tuple[float, ...]
    warm_share: float


class PodRuns:
    """Makes pods in a cluster with warm Datasets."""

    def __init__(self, cluster: SimulatedCluster, kube: Kube, seen: Sightings) -> None:
        self._cluster = cluster
        self._kube = kube
        self._seen = seen

    async def stream(self, datasets: Sequence[str], count: int) -> PodFigures:
        """Make pods at a fixed rate, 50 a second, for one Dataset after the other. Follow them until they are bound."""
        began, made, tasks = time.monotonic(), dict[str, float](), []
        names = {f"stream-{number:04d}": datasets[number % len(datasets)] for number in range(count)}
        for number, (name, dataset) in enumerate(names.items()):
            await asyncio.sleep(max(0.0, began + number / _STREAM - time.monotonic()))
            made[name] = time.monotonic()
            tasks.append(asyncio.create_task(self._kube.create(PODS, shape.pod(name, dataset))))
        await asyncio.gather(*tasks)
        await self._seen.until("all pods to be bound", lambda: self._all(names, lambda pod: pod.bound), _PATIENCE)
        pods = {name: self._seen.pods[name] for name in names}
        landed = sum(pod.node in self._seen.datasets[names[name]].warm for name, pod in pods.items())
        figures = PodFigures(
            tuple((pod.released or 0.0) - made[name] for name, pod in pods.items()),
            tuple((pod.bound or 0.0) - made[name] for name, pod in pods.items()),
            landed / count,
        )
        await self.clear()
        return figures

    async def pass_by(self, datasets: Sequence[str], count: int) -> None:
        """Make pods, 50 a second. Delete them when all remaining ones are bound, because nodes come and go."""
        began = time.monotonic()
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / _STREAM - time.monotonic()))
            await self._kube.create(PODS, shape.pod(f"passing-{number:04d}", datasets[number % len(datasets)]))
        with suppress(BenchError):  # its node was deleted at the wrong moment
            seen = self._seen.pods
            await self._seen.until("the pods to be bound", lambda: all(pod.bound for pod in seen.values()), _PASSING)
        await self.clear()

    async def burst(self, name: str, count: int) -> float:
        """Gate pods for a paused Dataset and let it warm. Return the pods per second that are released then."""
        await self._kube.create(DATASETS, shape.dataset(name, 3, probe=True, paused=True))
        await self._seen.until("a paused Dataset to be listed", lambda: self._is_listed(name), _PATIENCE)
        names = [f"burst-{number:04d}" for number in range(count)]
        await self._make(shape.pod(pod, name) for pod in names)
        await self._seen.until("all pods to be held", lambda: self._all(names, lambda pod: pod.injected), _PATIENCE)
        await self._kube.patch(DATASETS, name, {"spec": {"warm": {"paused": False}}}, shape.WORK)
        await self._seen.until("all pods to be released", lambda: self._all(names, lambda pod: pod.released), _PATIENCE)
        moments = [self._seen.pods[pod].released or 0.0 for pod in names]
        await self.clear()
        await self._kube.delete(DATASETS, name, shape.WORK)
        return _rate(moments)

    async def plain_burst(self, count: int) -> float:
        """Remove a gate from pods that read no data, with the operator's concurrency. Return the pods per second."""
        names = [f"plain-{number:04d}" for number in range(count)]
        await self._make(map(shape.gated_pod, names))
        await self._seen.until("all pods to be held", lambda: self._all(names, lambda pod: pod.gated), _PATIENCE)
        patches = (self._kube.patch(PODS, pod, {"spec": {"schedulingGates": None}}, shape.WORK) for pod in names)
        await _in_turns(patches, _UNGATED_AT_ONCE)
        await self._seen.until("all pods to be let go", lambda: self._all(names, lambda pod: pod.ungated), _PATIENCE)
        moments = [self._seen.pods[pod].ungated or 0.0 for pod in names]
        await self.clear()
        return _rate(moments)

    async def _make(self, pods: Iterable[Object]) -> None:
        await _in_turns((self._kube.create(PODS, pod) for pod in pods), _AT_ONCE)

    def _is_listed(self, name: str) -> bool:
        return name in self._seen.datasets and self._seen.datasets[name].listed

    def _all(self, names: Iterable[str], holds: Callable[[SeenPod], object]) -> bool:
        return all(name in self._seen.pods and holds(self._seen.pods[name]) for name in names)

    async def clear(self) -> None:
        """Delete all pods."""
        words = ("delete", "pods", "--all", "-n", shape.WORK, "--grace-period=0", "--force", "--wait=false")
        await asyncio.to_thread(self._cluster.kubectl, *words)
        await self._seen.until("the pods to be gone", lambda: not self._seen.pods, _PATIENCE)


async def _in_turns(requests: Iterable[Awaitable[object]], at_once: int) -> None:
    turns = asyncio.Semaphore(at_once)

    async def send(request: Awaitable[object]) -> None:
        async with turns:
            await request

    await asyncio.gather(*map(send, requests))


def _rate(moments: Sequence[float]) -> float:
    """Return the rate per second between the first and the last moment. Raises BenchError for too few."""
    first, last = min(moments), max(moments)
    if first == last:
        raise BenchError("all pods were released in one moment: there are too few of them for a rate")
    return (len(moments) - 1) / (last - first)
