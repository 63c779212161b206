"""A pass over gated pods, with the in-memory API server and its mirror."""

from collections.abc import Sequence
from typing import Any

from stoker_api import names
from stoker_kube.resources import PODS
from stoker_kube.tracing.spans import GateSpans
from stoker_operator.core.views.cluster import parse_pod
from stoker_operator.reconcilers.pod_gate import PodGate
from tests.unit.stoker_operator.builders import sidecar_pod
from tests.unit.stoker_operator.clusters import dataset, holding, node
from tests.unit.stoker_operator.operator_world import OperatorWorld


class World(OperatorWorld):
    """An API server, its mirror, and a clock."""

    def __init__(self, spans: GateSpans | None = None) -> None:
        super().__init__(now=0.0)
        self.gate = PodGate(self.writer, self.state, self.events, self.clock, spans)
        self.state.datasets.put("vision/imagenet", dataset())
        self.state.nodes.put("a", node("a"))
        self.state.pods.put("stoker/s-a", sidecar_pod("a"))

    async def step(self) -> float | None:
        """Run a pass and wait for its writes. Return seconds until the next pass."""
        again = await self.gate.reconcile()
        await self.gate.work.settled()
        return min((one for one in (again, self.gate.work.due()) if one is not None), default=None)

    async def decide(self) -> None:
        """Run a pass. Its writes have not started."""
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
