"""A pod's figures as users see them each second: from the operator's figures, and from its TrainingJob's status."""

import asyncio
import base64
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from bench.apistub import LOOPBACK, NODE
from bench.node import Node
from stoker_api.jobs.pod_figures import PodFigures
from stoker_api.jobs.trainingjob import TrainingProgress
from stoker_api.node_caches.nodecache import NodeCache
from stoker_kube.api import Listing, Object
from stoker_kube.resources import NODE_CACHES, Kind
from stoker_operator.core.jobs.training_progress import WorkerRows, phase_seconds, training_progress
from stoker_operator.core.pod_figures.figures_api import Asked
from stoker_operator.figures.collector import SIDECARS, FiguresCollector
from stoker_operator.figures.node_client import NodeClient, OperatorIdentity
from stoker_operator.webhook.peer_authority import PeerAuthority

NAMESPACE = "bench"
EVERY = 1.0  # seconds between two samples, as a person would look
_MINUTE = 60.0  # seconds that a reported stall covers
_ROLL_UP = 0.25  # seconds between two passes over the TrainingJob's status
JUDGED = 3.0  # minimum seconds of a phase


class Look(NamedTuple):
    """The shown figures at a moment of the monotonic clock, or None."""

    seconds: float
    phase: str | None
    epoch: int | None
    stall: int | None = None
    age: float = 0.0


class Truth(NamedTuple):
    """The program's phase from a moment on. ``stall`` is the share of the previous time spent waiting, if reported."""

    seconds: float
    phase: str | None
    epoch: int | None
    stall: float | None = None


@dataclass
class PodOfOne:
    """The API server of one node with one pod, for the operator's figures."""

    node: Node
    pod: str
    port: int
    authority: PeerAuthority

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        """Return the CA of the nodes."""
        data = {"ca.crt": self.authority.authorities, "ca.key": self.authority.key}
        return {"data": {key: base64.b64encode(value).decode() for key, value in data.items()}}

    async def list(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """Return the NodeCache, the sidecar's pod or the pod."""
        if kind is NODE_CACHES:
            return Listing([self.node.node_cache()], "1")
        return Listing([self._sidecar() if label_selector == SIDECARS else self._pod()], "1")

    async def pages(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[Listing]:
        """Return the same as a list of one page."""
        yield await self.list(kind, namespace, label_selector, field_selector)

    def _sidecar(self) -> Object:
        ports = [{"name": "peers", "containerPort": self.port}]
        spec = {"nodeName": NODE, "containers": [{"name": "sidecar", "ports": ports}]}
        return {"metadata": {"name": "sidecar"}, "spec": spec, "status": {"podIP": LOOPBACK}}

    def _pod(self) -> Object:
        meta = {"name": self.pod, "namespace": NAMESPACE, "uid": self.pod}
        return {"metadata": meta, "spec": {"nodeName": NODE}, "status": {"phase": "Running"}}


@dataclass
class Watched:
    """All samples during a program: from the API of figures, and from the status of its TrainingJob."""

    figures: list[Look]
    job: list[Look]
    code: int = 0


def watch(cluster: PodOfOne, command: Sequence[str], environment: dict[str, str]) -> Watched:
    """Run a program, and sample the shown figures of its pod each second."""
    return asyncio.run(_watch(cluster, command, environment))


async def _watch(cluster: PodOfOne, command: Sequence[str], environment: dict[str, str]) -> Watched:
    found = Watched([], [])
    identity = OperatorIdentity(cluster, NAMESPACE, time.monotonic)
    async with NodeClient(identity) as client:
        collector = FiguresCollector(cluster, NAMESPACE, client)
        process = await asyncio.create_subprocess_exec(*command, env=environment, stderr=subprocess.DEVNULL)
        job = _Job(cluster)
        rolling = asyncio.create_task(job.run())
        try:
            while process.returncode is None:
                began = time.monotonic()
                rows = await collector.figures(Asked(NAMESPACE, cluster.pod))
                found.figures.append(_look(rows))
                found.job.append(job.look())
                await asyncio.sleep(max(0.0, began + EVERY - time.monotonic()))
        finally:
            rolling.cancel()
            if process.returncode is None:
                process.kill()
        found.code = await process.wait()
    return found


def _look(rows: Sequence[PodFigures]) -> Look:
    if not rows:
        return Look(time.monotonic(), None, None)
    work = rows[0].workload
    return Look(time.monotonic(), work.phase, work.epoch, work.stall_percent, rows[0].age_seconds)


class _Job:
    """The status of a TrainingJob with one worker, computed with the operator's code."""

    def __init__(self, cluster: PodOfOne) -> None:
        self._cluster = cluster
        self._status: TrainingProgress | None = None

    async def run(self) -> None:
        """Roll up repeatedly until cancelled."""
        while True:
            raw = self._cluster.node.node_cache()
            rows = NodeCache.model_validate(raw).status.workloads
            mine = WorkerRows(tuple(row for row in rows if row.uid == self._cluster.pod), (), {self._cluster.pod})
            self._status = training_progress(self._status, mine, time.time(), phase_seconds(1))
            await asyncio.sleep(_ROLL_UP)

    def look(self) -> Look:
        """Return the figures in the status."""
        now, status = time.monotonic(), self._status
        if status is None:
            return Look(now, None, None)
        epoch = status.epoch.partition("/")[0]
        return Look(now, status.phase, int(epoch) if epoch.isdecimal() else None)


def right(truth: Sequence[Truth], looks: Sequence[Look], same: Callable[[Truth, Look], bool | None]) -> float:
    """Return the percentage of correct samples. If ``same`` returns None, the sample does not count."""
    verdicts = [same(before, look) for before, _, look in _paired(truth, looks)]
    counted = [one for one in verdicts if one is not None]
    return 100 * sum(counted) / len(counted) if counted else 0.0


def stall_off(truth: Sequence[Truth], looks: Sequence[Look]) -> float | None:
    """Return the largest error of the shown stall at the end of each epoch, in percentage points.

    The program's stall covers the last minute, as the shown one does.
    """
    epochs = [(one.seconds, after.seconds, after.stall) for one, after in pairwise(truth) if after.stall is not None]
    off: list[float] = []
    for _, end, _ in epochs:
        last = next((look for look in reversed(looks) if end - EVERY <= look.seconds < end), None)
        if last is not None and last.stall is not None:
            off.append(abs(last.stall - 100 * _own(epochs, end)))
    return max(off, default=None)


def _own(epochs: Sequence[tuple[float, float, float]], end: float) -> float:
    """Return the share of the last minute's training that the program spent waiting."""
    spans = [(min(until, end) - max(since, end - _MINUTE), stall) for since, until, stall in epochs if until <= end]
    known = [(length, stall) for length, stall in spans if length > 0]
    return sum(length * stall for length, stall in known) / sum(length for length, _ in known)


def _paired(truth: Sequence[Truth], looks: Sequence[Look]) -> list[tuple[Truth, Truth, Look]]:
    """Return each sample within a phase of at least JUDGED seconds, with that phase and the next one."""
    spans = [(one, after) for one, after in pairwise(truth)]
    long = [(one, after) for one, after in spans if after.seconds - one.seconds >= JUDGED and one.phase]
    return [(one, after, look) for one, after in long for look in looks if one.seconds <= look.seconds < after.seconds]


def seen_from(folder: Path, target: Path) -> list[str]:
    """Return the arguments of a program that reads ``target`` and writes the rest to ``folder``."""
    return [str(target), str(folder / "checkpoints"), str(folder / "truth.jsonl")]
