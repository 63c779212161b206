"""A pass over held pods, with the in-memory API server and the mirror that it looks at."""

from collections.abc import Sequence
from typing import Any
from unittest import mock

from stoker_api import names
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_kube.resources import PODS
from stoker_operator.core.views import parse_pod
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.pod_gate import PodGate
from stoker_operator.work_turns import WorkTurns
from stoker_operator.writer import Writer
from tests.fakes.kube import FakeKube
from tests.fakes.sidecar import DAEMON_SET
from tests.unit.stoker_operator.clusters import dataset, holding, node


class Recorded(EventRecorder):
    """Keeps events instead of writing them."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def event(self, ref: ObjectRef, type: str, reason: str, message: str) -> None:
        self.seen.append((ref.name, type, reason))


class World:
    """An API server, the mirror of it, and a clock."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.state = ClusterState("stoker")
        self.events = Recorded()
        self.now = 0.0
        self.gate = PodGate(Writer(self.kube), self.state, self.events, lambda: self.now)
        self.state.datasets.put("vision/imagenet", dataset())
        self.state.nodes.put("a", node("a"))
        labels = {"app.kubernetes.io/component": "sidecar"}
        sidecar = {
            "metadata": {"namespace": "stoker", "name": "s", "labels": labels, "ownerReferences": [DAEMON_SET]},
            "spec": {"nodeName": "a"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        self.state.pods.put("stoker/s", parse_pod(sidecar))

    async def step(self) -> float | None:
        """Make a pass, and wait for what came of it; gives seconds until the next is due."""
        again = await self.gate.reconcile()
        await self.gate.work.settled()
        return min((one for one in (again, self.gate.work.due()) if one is not None), default=None)

    async def decide(self) -> None:
        """Make a pass that gives way to nobody, however slow the machine: what it decides on has yet to begin."""
        with mock.patch.object(WorkTurns, "_give_way", mock.AsyncMock()):
            await self.gate.reconcile()

    async def add_pod(self, name: str = "p", cpu: str = "0", **annotations: str) -> None:
        await self.add_pod_with((names.GATE_WARM,), name, cpu, **annotations)

    async def add_pod_with(self, gates: Sequence[str], name: str = "p", cpu: str = "0", **annotations: str) -> None:
        metadata = {
            "name": name,
            "namespace": "vision",
            "labels": {names.LABEL_MANAGED: "true"},
            "annotations": {names.ANNOTATION_DATASETS: "imagenet:/data"} | annotations,
        }
        container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        spec = {"schedulingGates": [{"name": gate} for gate in gates], "containers": [container]}
        created = await self.kube.create(PODS, {"metadata": metadata, "spec": spec}, "vision")
        self.state.pods.put(f"vision/{name}", parse_pod(created))
        self.now = parse_pod(created).created

    def warm(self, share: float = 1.0) -> None:
        self.state.node_caches.put("a", holding("a", share))

    async def pod(self, name: str = "p") -> dict[str, Any]:
        return await self.kube.get(PODS, name, "vision")
