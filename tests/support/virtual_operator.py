"""A leading operator with its nodes, on an API server in memory and in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from stoker_api import names
from stoker_kube.api import Kube
from stoker_kube.informer import Informer
from stoker_kube.resources import DATASETS, NODES, PODS, TRAINING_JOBS
from stoker_kube.watch import watch
from stoker_operator.core.plans.admission import parse_dataset, parse_training_job
from stoker_operator.mirror.state import ClusterState
from stoker_operator.processes.leader import Leader
from tests.fakes.sidecar import FakeSidecar
from tests.fakes.troubled_kube import TroubledKube

EPOCH = 1_800_000_000.0  # seconds since the epoch at the start of virtual time
LIMIT = 900.0  # maximum wait of a test in seconds
LOOK = 0.05  # seconds between two polls of a test


class VirtualOperator:
    """The operator without webhook and Lease. Make it inside a virtual loop. ``run`` starts it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.kube = TroubledKube(clock=lambda: datetime.fromtimestamp(self.now(), UTC))
        self._state = ClusterState("stoker")
        self._tasks: list[asyncio.Task[Any]] = []

    def now(self) -> float:
        """Return seconds since the epoch."""
        return EPOCH + self._loop.time()

    async def add_node(self, name: str) -> None:
        """Add a node whose sidecar warms at once."""
        sidecar = FakeSidecar(self.kube, name, "stoker")
        sidecar.share = 1.0
        await sidecar.join()
        room = {"status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"}}}
        await self.kube.patch(NODES, name, room, subresource="status")
        self._tasks.append(asyncio.create_task(sidecar.run()))

    async def add_dataset(self, namespace: str, name: str, **spec: Any) -> None:
        """Create a Dataset with credentials."""
        source = {"uri": "s3://bucket/", "credentials": {"secretRef": {"name": "keys"}}}
        meta = {"namespace": namespace, "name": name}
        await self.kube.create(DATASETS, {"metadata": meta, "spec": {"source": source} | spec})

    async def add_pod(self, namespace: str, name: str, dataset: str) -> None:
        """Create a gated pod, as the webhook makes it."""
        annotations = {names.ANNOTATION_DATASETS: f"{dataset}:/data", names.ANNOTATION_MAX_WAIT: "24h"}
        meta = {"namespace": namespace, "name": name, "labels": {names.LABEL_MANAGED: "true"}}
        spec = {"schedulingGates": [{"name": names.GATE_WARM}], "containers": [{"name": "main"}]}
        await self.kube.create(PODS, {"metadata": meta | {"annotations": annotations}, "spec": spec})

    async def add_training_job(self, namespace: str, name: str, dataset: str) -> None:
        """Create a TrainingJob of one worker."""
        template = {"spec": {"containers": [{"name": "trainer", "image": "x"}]}}
        spec = {"framework": "pytorch", "datasets": [{"name": dataset, "mountPath": "/data"}], "template": template}
        await self.kube.create(TRAINING_JOBS, {"metadata": {"namespace": namespace, "name": name}, "spec": spec})

    def run(self) -> None:
        """Start to lead."""
        self._tasks += feed(self.kube, self._state)
        leader = Leader(self.kube, self._state, self.now)
        self._tasks.append(asyncio.create_task(leader.run(wait_fed, asyncio.Event())))

    async def until(self, condition: Callable[[], bool]) -> float:
        """Return the virtual seconds until the condition holds, which must be less than ``LIMIT``."""
        began = self._loop.time()
        while not condition():
            self.check()
            assert self._loop.time() - began < LIMIT, "it never comes"
            await asyncio.sleep(LOOK)
        return self._loop.time() - began

    def check(self) -> None:
        """Raise the error of a part of the operator that has ended."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def stop(self) -> None:
        """End everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def feed(kube: Kube, state: ClusterState) -> list[asyncio.Task[None]]:
    """Start to feed Datasets and TrainingJobs into the mirror, as the front door does."""
    datasets: Informer[Any] = Informer(watch(kube, DATASETS), parse_dataset, state.datasets.feed)
    jobs: Informer[Any] = Informer(watch(kube, TRAINING_JOBS), parse_training_job, state.training_jobs.feed)
    return [asyncio.create_task(informer.run()) for informer in (datasets, jobs)]


async def wait_fed() -> None:
    """Wait for the first lists of ``feed``, which take no time."""
    await asyncio.sleep(LOOK)


Step = Callable[[VirtualOperator], Awaitable[None]]
