"""What gating leaves of the event loop that also answers the webhook and renews the Lease, while all nodes report.

The operator's own pass, loop and writer over its mirror; only the API server is played, by one that answers after a
few milliseconds, and a scheduler that binds what is let go. Parsing what a watch brings is not part of it.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import quantiles
from typing import Final, cast

from bench.gate_passes import ROOM, dataset_of_gate, held_pod, holding_node, node_of_gate
from stoker_api import names
from stoker_kube.api import Kube, Object
from stoker_kube.events import EventLevel, EventRecorder, ObjectRef
from stoker_kube.resources import Kind
from stoker_operator.core.resources import Resources
from stoker_operator.core.views import PodView, parse_pod
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.loop import ReconcileLoop
from stoker_operator.reconcilers.pod_gate import PodGate
from stoker_operator.writer import Writer

BURST = 1000  # pods at once
PODS_A_SECOND = 50  # after the burst
REPORTS_A_SECOND = 500  # each of 5,000 nodes every 10 s
SECONDS = 10.0  # after the burst
_ANSWER = 0.005  # seconds until the API server answers a write
_PASS_INTERVAL = 0.25  # seconds, as the operator has it
_PROBE = 0.002  # seconds between two looks at the loop


@dataclass(frozen=True)
class LoopCost:
    """How long others wait for their turn, and how soon pods go.

    ``median``, ``p99`` and ``longest``: CPU seconds of this process between two turns of one that asks for one all the
    time. A busy machine adds nothing to them; a webhook's answer, or the Lease's renewal, waits so long at most.
    """

    nodes: int
    median: float
    p99: float
    longest: float
    burst: float  # seconds until all pods of the burst went
    released: int
    cold: int  # of the released: those that may go to a node that is not warm

    @property
    def rate(self) -> float:
        """Releases a second, of the burst."""
        return BURST / self.burst


class _NoEvents(EventRecorder):
    """Writes no events."""

    def __init__(self) -> None:
        return

    def event(self, ref: ObjectRef, type: EventLevel, reason: str, message: str) -> None:
        return


class _PlayedServer:
    """Lets pods go as it is asked to, and binds each to the first node that it may go to."""

    def __init__(self, state: ClusterState, warm: frozenset[str]) -> None:
        self._state: Final = state
        self._warm: Final = warm
        self.released = self.cold = 0

    async def patch(self, kind: Kind, name: str, body: object, namespace: str = "", **_: object) -> Object:
        """Answer a write onto a pod."""
        await asyncio.sleep(_ANSWER)
        old = self._state.pods.get(f"{namespace}/{name}")
        assert old is not None
        meta: Object = {"namespace": namespace, "name": name, "uid": old.uid, "labels": {names.LABEL_MANAGED: "true"}}
        meta["annotations"] = {names.ANNOTATION_DATASETS: old.datasets}
        requests = {"cpu": f"{old.requests.cpu_milli}m"}
        spec: Object = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
        if isinstance(body, list):
            self._let_go(f"{namespace}/{name}", str(body))
        else:
            spec["schedulingGates"] = [{"name": names.GATE_WARM}]
        return {"metadata": meta, "spec": spec}

    def _let_go(self, key: str, patch: str) -> None:
        self.released += 1
        named = [name for name in self._warm if f"'{name}'" in patch]
        self.cold += not named
        asyncio.get_running_loop().call_later(_ANSWER, self._bind, key, named)

    def _bind(self, key: str, named: Sequence[str]) -> None:
        pod = self._state.pods.get(key)
        if pod is not None and named:
            self._state.pods.put(key, replace(pod, node=named[0], phase="Running"))


def measure_loop(size: int) -> LoopCost:
    """Measure a cluster of so many nodes, of which as many are warm as the pods need twice."""
    gc.set_threshold(2_000, 20, 1_000_000)  # a look at all objects for cycles is another matter
    return asyncio.run(_measured(size))


def show_loop(cost: LoopCost) -> str:
    """Return the figures as sentences."""
    return (
        f"{cost.nodes:,} nodes, {REPORTS_A_SECOND} reports/s, {BURST} held pods at once and then {PODS_A_SECOND}/s: "
        f"others wait {cost.median * 1e3:.1f} ms (median), {cost.p99 * 1e3:.1f} ms (99 %), {cost.longest * 1e3:.0f} ms "
        f"(longest) for their turn; {cost.released} released, {cost.cold} of them not to warm nodes alone; "
        f"the first {BURST} at {cost.rate:,.0f}/s"
    )


async def _measured(size: int) -> LoopCost:
    state = ClusterState("stoker")
    node_names = [f"n{index:05}" for index in range(size)]
    warm = frozenset(node_names[:: max(1, size * ROOM // (4 * BURST))])
    server = _PlayedServer(state, warm)
    _fill(state, node_names, warm)
    gate = PodGate(Writer(cast("Kube", server)), state, _NoEvents(), time.time)
    loop = ReconcileLoop("pods", gate, _PASS_INTERVAL)
    for table in (state.pods, state.node_caches):
        table.listen(lambda old, new: loop.wake())
    await gate.reconcile()
    running = asyncio.create_task(loop.run())
    lags: list[float] = []
    others = [asyncio.create_task(_probe(lags)), asyncio.create_task(_report(state, node_names, warm))]
    began = time.perf_counter()
    for index in range(BURST):
        _make(state, index)
    await _until(lambda: server.released >= BURST, 60.0)
    burst = time.perf_counter() - began
    for index in range(int(SECONDS * PODS_A_SECOND)):
        _make(state, BURST + index)
        await asyncio.sleep(1 / PODS_A_SECOND)
    await _until(lambda: server.released >= BURST + int(SECONDS * PODS_A_SECOND), 30.0)
    for task in (*others, running):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    cuts = quantiles(lags, n=100)
    return LoopCost(size, cuts[49], cuts[98], max(lags), burst, server.released, server.cold)


def _fill(state: ClusterState, node_names: Sequence[str], warm: frozenset[str]) -> None:
    dataset = dataset_of_gate()
    state.datasets.put(dataset.key, dataset)
    for name in node_names:
        node = replace(node_of_gate(name), allocatable=Resources(cpu_milli=1000 * ROOM, pods=ROOM))
        state.nodes.put(name, node)
        state.pods.put(f"stoker/s-{name}", _sidecar(name))
        state.node_caches.put(name, holding_node(name, 1 << 30 if name in warm else 0))


def _sidecar(node: str) -> PodView:
    owner = {"kind": "DaemonSet", "name": "stoker", "uid": "d", "controller": True}
    labels = {"app.kubernetes.io/component": "sidecar"}
    metadata = {"namespace": "stoker", "name": f"s-{node}", "uid": f"s-{node}", "labels": labels}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return parse_pod(
        {"metadata": metadata | {"ownerReferences": [owner]}, "spec": {"nodeName": node}, "status": status}
    )


def _make(state: ClusterState, index: int) -> None:
    pod = replace(held_pod(index), created=time.time())
    state.pods.put(pod.key, pod)


async def _probe(lags: list[float]) -> None:
    while True:
        before = time.process_time()
        await asyncio.sleep(_PROBE)
        lags.append(time.process_time() - before)


async def _report(state: ClusterState, node_names: Sequence[str], warm: frozenset[str]) -> None:
    cold = [name for name in node_names if name not in warm]
    number = 0
    while True:
        for _ in range(REPORTS_A_SECOND // 100):
            name = cold[number % len(cold)]
            state.node_caches.put(name, holding_node(name, number % (1 << 29)))
            number += 1
        await asyncio.sleep(0.01)


async def _until(condition: Callable[[], bool], seconds: float) -> None:
    end = time.perf_counter() + seconds
    while not condition() and time.perf_counter() < end:  # noqa: ASYNC110 -- what it waits for tells nobody
        await asyncio.sleep(0.005)
