"""The user's view of a cluster over time: Datasets that become Ready, pods that are released and bound."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bench.errors import BenchError
from bench.simulation import shape
from stoker_api import names
from stoker_kube.api import Kube, Object
from stoker_kube.resources import DATASETS, PODS, Kind
from stoker_kube.watch import EventType, watch

_LOOK_SECONDS = 5.0  # seconds without news before the cluster is checked for progress


@dataclass(frozen=True)
class SeenDataset:
    """The observed part of a Dataset's status."""

    phase: str
    done: int  # number of nodes with a complete copy
    warm: frozenset[str]  # node names among those, up to the status's limit
    listed: bool = False


@dataclass
class SeenPod:
    """Times of the first observations of a pod, on the monotonic clock, or None. Any client may remove the gate."""

    injected: bool = False
    gated: bool = False
    ungated: float | None = None
    released: float | None = None
    bound: float | None = None
    node: str = ""


@dataclass
class Sightings:
    """The Datasets and pods in the namespace of the measurement, by name. ``run`` updates them."""

    kube: Kube
    datasets: dict[str, SeenDataset] = field(default_factory=dict)
    pods: dict[str, SeenPod] = field(default_factory=dict)
    still: Callable[[], object] = lambda: None  # raises if no further change is possible
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_datasets())
            tasks.create_task(self._watch_pods())

    def is_ready(self, name: str) -> bool:
        """Return whether a Dataset is Ready."""
        return name in self.datasets and self.datasets[name].phase == "Ready"

    async def until(self, what: str, condition: Callable[[], bool], seconds: float) -> float:
        """Wait until the condition holds. Return the seconds. Raises BenchError after too long.

        Raises the errors of ``still`` as well.
        """
        began = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self.still()
                    self._changed.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_SECONDS):
                            await self._changed.wait()
        except TimeoutError as error:
            raise BenchError(f"waited {seconds:.0f} s in vain: {what}") from error
        return time.monotonic() - began

    async def _watch_datasets(self) -> None:
        def see(name: str, raw: Object) -> None:
            self.datasets[name] = seen_dataset(raw)

        await self._follow(DATASETS, see, self.datasets)

    async def _watch_pods(self) -> None:
        def see(name: str, raw: Object) -> None:
            look_at(self.pods.setdefault(name, SeenPod()), raw, time.monotonic())

        await self._follow(PODS, see, self.pods)

    async def _follow(self, kind: Kind, see: Callable[[str, Object], None], seen: dict[str, Any]) -> None:
        async for event in watch(self.kube, kind, namespace=shape.WORK):
            if event.type is EventType.SYNCED:
                continue
            name = event.object["metadata"]["name"]
            if event.type is EventType.DELETED:
                seen.pop(name, None)
            else:
                see(name, event.object)
            self._changed.set()


def seen_dataset(raw: Object) -> SeenDataset:
    """Return the observed part of a Dataset. Pure."""
    status = raw.get("status") or {}
    done = str(status.get("warmNodes") or "0/0").partition("/")[0]
    warm = frozenset(row["name"] for row in status.get("nodes") or () if row.get("phase") == "Warm")
    return SeenDataset(str(status.get("phase") or ""), int(done), warm, bool(status.get("version")))


def look_at(pod: SeenPod, raw: Object, now: float) -> None:
    """Record new observations of a pod."""
    spec = raw["spec"]
    gates = {gate["name"] for gate in spec.get("schedulingGates") or ()}
    released = names.ANNOTATION_RELEASED in (raw["metadata"].get("annotations") or {})
    pod.gated = pod.gated or bool(gates)
    if pod.ungated is None and pod.gated and not gates:
        pod.ungated = now
    pod.injected = pod.injected or names.GATE_WARM in gates or released
    if pod.released is None and released and names.GATE_WARM not in gates:
        pod.released = now
    if pod.bound is None and spec.get("nodeName"):
        pod.bound, pod.node = now, spec["nodeName"]
