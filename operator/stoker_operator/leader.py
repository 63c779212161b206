"""What only the leading replica runs: the watches of what is many, and the reconcile loops."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from stoker_kube.api import Kube
from stoker_kube.events import EventRecorder
from stoker_operator.core.credentials_rbac import SidecarIdentity
from stoker_operator.mirror.informers import Informers
from stoker_operator.mirror.state import ClusterState, Table
from stoker_operator.reconcilers import pod_gate, training_jobs
from stoker_operator.reconcilers.datasets import DatasetReconciler
from stoker_operator.reconcilers.loop import Reconcile, ReconcileLoop
from stoker_operator.reconcilers.pod_gate import PodGate
from stoker_operator.reconcilers.training_jobs import TrainingJobReconciler
from stoker_operator.writer import FIELD_MANAGER, Writer

PASS_INTERVAL = 0.25  # seconds between passes of a loop: bursts become one pass, people do not notice it

_DATASET_INPUTS = frozenset({Table.DATASETS, Table.INVALID_DATASETS, Table.NODE_CACHES, Table.NODES, Table.PODS})


class Leader:
    """Made once the Lease is ours; ``run`` until ``stop``."""

    def __init__(
        self, kube: Kube, state: ClusterState, sidecar: SidecarIdentity, clock: Callable[[], float] = time.time
    ) -> None:
        self.state: Final = state
        self._informers: Final = Informers(kube, self.state)
        self._events: Final = EventRecorder(kube, FIELD_MANAGER)
        self._loops: Final[list[ReconcileLoop]] = []
        self._wire_datasets(kube, sidecar, clock)
        self._wire_pods(kube, clock)
        self._wire_training_jobs(kube, clock)

    async def run(self, known: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
        """Act until ``stop``, from when ``known()`` says that all Datasets and TrainingJobs are. Raises what a part raises."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._events.run(), name="events")]
            running += self._informers.start(tasks)
            if await _first(self._all_known(known), stop.wait()):
                running += [tasks.create_task(loop.run(), name="loop") for loop in self._loops]
                await stop.wait()
            for task in running:
                task.cancel()

    async def _all_known(self, known: Callable[[], Awaitable[None]]) -> None:
        await self._informers.wait_synced()
        await known()

    def _wire_datasets(self, kube: Kube, sidecar: SidecarIdentity, clock: Callable[[], float]) -> None:
        reconciler = DatasetReconciler(self.state, Writer(kube), self._events, sidecar, clock)
        loop = self._loop("datasets", reconciler.reconcile)
        self.state.listen(_DATASET_INPUTS, _waker(loop))
        self.state.listen_wanted(loop.wake)

    def _wire_pods(self, kube: Kube, clock: Callable[[], float]) -> None:
        loop = self._loop("pods", PodGate(kube, self.state, self._events, clock).reconcile)
        self.state.listen(pod_gate.INPUTS, lambda *_: loop.wake())

    def _wire_training_jobs(self, kube: Kube, clock: Callable[[], float]) -> None:
        reconciler = TrainingJobReconciler(kube, self.state, self._events, clock)
        loop = self._loop("trainingjobs", reconciler.reconcile)
        self.state.listen(training_jobs.INPUTS, training_jobs.waker(loop.wake))

    def _loop(self, name: str, reconcile: Reconcile) -> ReconcileLoop:
        loop = ReconcileLoop(name, reconcile, PASS_INTERVAL)
        self._loops.append(loop)
        return loop


def _waker(loop: ReconcileLoop) -> Callable[[Table, Any | None, Any | None], None]:
    """Wakes on everything but pods that have nothing to do with Datasets."""

    def wake(table: Table, old: Any | None, new: Any | None) -> None:
        views = [view for view in (old, new) if view is not None]
        if table is not Table.PODS or any(pod.uses_data or pod.sidecar for pod in views):
            loop.wake()

    return wake


async def _first(wanted: Any, other: Any) -> bool:
    """Await whichever comes first; True when it was ``wanted``. The other is cancelled."""
    tasks = [asyncio.ensure_future(wanted), asyncio.ensure_future(other)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return tasks[0] in done
