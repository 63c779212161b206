"""The work of the leading replica: the watches of kinds with many objects, and the reconcile loops."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from stoker_api import names
from stoker_kube.api import Kube
from stoker_kube.events import EventRecorder
from stoker_kube.tracing.spans import GateSpans
from stoker_operator.core.classes.profiles import ProfileView
from stoker_operator.core.kueue.kueue_objects import queued_by
from stoker_operator.core.origins.origin_policy import OriginPolicy
from stoker_operator.core.views.cluster import PodView
from stoker_operator.mirror.informers import Informers
from stoker_operator.mirror.kueue_feed import KueueFeed
from stoker_operator.mirror.state import ClusterState, Listener, MirrorTable
from stoker_operator.reconcilers.datasets import DatasetReconciler
from stoker_operator.reconcilers.kueue_checks import KueueChecks
from stoker_operator.reconcilers.loops.loop import LevelTriggered, ReconcileLoop
from stoker_operator.reconcilers.peer_certificates import PeerCertificates, certified
from stoker_operator.reconcilers.pod_gate import PodGate
from stoker_operator.reconcilers.startup_taints import StartupTaints, has_startup_taint
from stoker_operator.reconcilers.training_jobs import TrainingJobReconciler
from stoker_operator.reconcilers.tuning_profiles import TuningProfileReconciler, planned_by, told_of, uses_of
from stoker_operator.writes.write_budget import RATE, EventPace, WriteBudget
from stoker_operator.writes.writer import FIELD_MANAGER, Writer


async def done_before(wanted: Coroutine[Any, Any, Any], other: Coroutine[Any, Any, Any]) -> bool:
    """Await the first to end and cancel the second; return True if ``wanted`` ended first. Raises its error."""
    tasks = [asyncio.create_task(wanted), asyncio.create_task(other)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    if tasks[0] in done:
        tasks[0].result()
        return True
    return False


PASS_INTERVAL = 0.25  # seconds between passes of a loop: merges bursts, too short for people to notice


class Leader:
    """The work of the replica that holds the Lease: call ``run`` until ``stop``."""

    def __init__(
        self,
        kube: Kube,
        state: ClusterState,
        clock: Callable[[], float] = time.time,
        *,
        startup_taint: bool = False,
        origins: OriginPolicy | None = None,
        kueue: bool = False,
        writes_per_second: float = RATE,
        spans: GateSpans | None = None,
    ) -> None:
        """Prepare the work, including the optional parts that need rights from the chart.

        ``startup_taint``: remove that taint from nodes. ``origins``: limits and prices of object stores. ``kueue``:
        answer Kueue's AdmissionChecks, if Kueue is installed. ``writes_per_second``: for all loops and their events
        together, except releases of pods. ``spans``: traces of held pods.
        """
        self._state: Final = state
        self._informers: Final = Informers(kube, state)
        budget = WriteBudget(writes_per_second, clock)
        pace = EventPace(budget, clock, lambda: self._gate.crowded)
        self._events: Final = EventRecorder(kube, FIELD_MANAGER, pace=pace)
        self._loops: Final[list[ReconcileLoop]] = []
        writer = Writer(kube, budget)
        self._wire_datasets(writer, clock, origins)
        self._gate: Final = PodGate(writer, state, self._events, clock, spans)
        self._wire_pods(self._gate)
        self._wire_training_jobs(writer, clock)
        self._wire_tuning_profiles(writer, clock)
        self._wire_peers(writer, clock)
        self._kueue: Final = KueueFeed(kube, state) if kueue else None
        if startup_taint:
            self._wire_nodes(writer, clock)
        if kueue:
            self._wire_kueue(writer, clock)

    async def run(self, known: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
        """Work until ``stop``, once ``known()`` returns: then all Datasets and TrainingJobs are known.

        Raises errors of the parts.
        """
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._events.run(), name="events")]
            running += self._informers.start(tasks)
            if self._kueue is not None:
                running.append(tasks.create_task(self._kueue.run(), name="kueue"))
            if await done_before(self._all_known(known), stop.wait()):
                running += [tasks.create_task(loop.run(), name=f"loop of {loop.name}") for loop in self._loops]
                await stop.wait()
            for task in running:
                task.cancel()

    async def _all_known(self, known: Callable[[], Awaitable[None]]) -> None:
        await self._informers.wait_synced()
        await known()

    def _wire_datasets(self, writer: Writer, clock: Callable[[], float], origins: OriginPolicy | None) -> None:
        state = self._state
        reconciler = DatasetReconciler(state, writer, self._events, clock, origins)
        loop = self._loop("datasets", reconciler)
        _wake_on(loop, state.datasets, state.dataset_classes, state.node_caches, state.nodes)
        _wake_on(loop, state.roles, state.role_bindings, state.node_accounts)
        state.tuning_profiles.listen(_on_readings(loop))
        state.training_jobs.listen(lambda old, new: loop.wake() if planned_by(old) != planned_by(new) else None)
        state.pods.listen(_on_pods(loop, lambda pod: pod.uses_data or pod.sidecar))
        state.listen_wanted(loop.wake)
        state.leaving.listen(lambda node: loop.wake())

    def _wire_pods(self, gate: PodGate) -> None:
        state, loop = self._state, self._loop("pods", gate)
        _wake_on(loop, state.pods, state.datasets, state.dataset_classes, state.node_caches, state.nodes)
        state.training_jobs.listen(lambda old, new: loop.wake() if queued_by(old) != queued_by(new) else None)

    def _wire_training_jobs(self, writer: Writer, clock: Callable[[], float]) -> None:
        state = self._state
        loop = self._loop("trainingjobs", TrainingJobReconciler(writer, state, self._events, clock))
        _wake_on(loop, state.training_jobs, state.jobs, state.datasets, state.dataset_classes, state.node_caches)
        state.tuning_profiles.listen(_on_readings(loop))
        state.pods.listen(_on_pods(loop, lambda pod: names.LABEL_TRAINING_JOB in pod.labels))

    def _wire_tuning_profiles(self, writer: Writer, clock: Callable[[], float]) -> None:
        state = self._state
        loop = self._loop("tuningprofiles", TuningProfileReconciler(writer, state, self._events, clock))
        _wake_on(loop, state.tuning_profiles)
        state.node_caches.listen(lambda old, new: loop.wake() if uses_of(old) != uses_of(new) else None)
        state.datasets.listen(lambda old, new: loop.wake() if told_of(old) != told_of(new) else None)

    def _wire_peers(self, writer: Writer, clock: Callable[[], float]) -> None:
        loop = self._loop("peers", PeerCertificates(writer, self._state, self._events, clock))
        self._state.node_caches.listen(lambda old, new: loop.wake() if certified(old, new) else None)

    def _wire_nodes(self, writer: Writer, clock: Callable[[], float]) -> None:
        loop = self._loop("nodes", StartupTaints(writer, self._state, self._events, clock))
        self._state.nodes.listen(lambda old, new: loop.wake() if new is not None and has_startup_taint(new) else None)
        self._state.pods.listen(_on_pods(loop, lambda pod: pod.sidecar))

    def _wire_kueue(self, writer: Writer, clock: Callable[[], float]) -> None:
        # Nodes' reports do not wake it, because they come all the time: it polls while a Workload waits.
        loop = self._loop("kueue", KueueChecks(writer, self._state, self._events, clock))
        _wake_on(loop, self._state.admission_checks, self._state.queued_workloads)

    def _loop(self, name: str, reconciler: LevelTriggered) -> ReconcileLoop:
        loop = ReconcileLoop(name, reconciler, PASS_INTERVAL)
        self._loops.append(loop)
        return loop


def _wake_on(loop: ReconcileLoop, *tables: MirrorTable[Any]) -> None:
    """Wake the loop on every change in the tables."""
    for table in tables:
        table.listen(lambda old, new: loop.wake())


def _on_pods(loop: ReconcileLoop, concerns: Callable[[PodView], bool]) -> Listener[PodView]:
    """Return a listener that wakes the loop on changes of relevant pods: most of a cluster's pods are not."""

    def wake(old: PodView | None, new: PodView | None) -> None:
        if any(concerns(pod) for pod in (old, new) if pod is not None):
            loop.wake()

    return wake


def _on_readings(loop: ReconcileLoop) -> Listener[ProfileView]:
    """Return a listener that wakes the loop when a TuningProfile's content changes, not its status."""

    def wake(old: ProfileView | None, new: ProfileView | None) -> None:
        if (old and old.reading) != (new and new.reading):
            loop.wake()

    return wake
