"""An API server in memory with its mirror and the reconciler of Datasets, for tests with many passes."""

from typing import Any

from stoker_api.datasets.dataset import Dataset
from stoker_api.node_caches.nodecache import NodeCache
from stoker_kube.resources import DATASETS, NODE_CACHES
from stoker_operator.core.plans.admission import parse_dataset
from stoker_operator.reconcilers.datasets import DatasetReconciler
from tests.fakes.kube import FakeKube
from tests.unit.stoker_operator.builders import V1, make_node, report, sidecar_pod
from tests.unit.stoker_operator.operator_world import OperatorWorld


class World(OperatorWorld):
    """An API server, its mirror, and a clock. Nodes and sidecars exist in the mirror only."""

    def __init__(self, kube: FakeKube | None = None) -> None:
        super().__init__(kube)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Replace the leader. The new one knows only the mirror."""
        self.reconciler = DatasetReconciler(self.state, self.writer, self.events, self.clock)

    def add_node(self, name: str) -> None:
        self.state.nodes.put(name, make_node(name))
        self.state.pods.put(f"stoker/s-{name}", sidecar_pod(name))

    async def add_dataset(self, name: str = "imagenet", **spec: Any) -> None:
        body = {"source": {"uri": "s3://bucket/"}} | spec
        await self.kube.create(DATASETS, {"metadata": {"name": name, "namespace": "vision"}, "spec": body})
        await self.see(name)

    async def start(self, name: str = "imagenet", *, passes: int = 1, **spec: Any) -> None:
        """Make a Dataset and run this number of passes."""
        await self.add_dataset(name, **spec)
        await self.run(passes)

    async def see(self, name: str = "imagenet") -> None:
        """Copy the state of the API server to the mirror."""
        found = {one["metadata"]["name"]: one for one in self.kube.objects(DATASETS)}
        self.state.datasets.put(f"vision/{name}", parse_dataset(found[name]) if name in found else None)

    async def step(self) -> float | None:
        """Run a pass and wait for its writes. Return seconds until the next pass."""
        again, work = await self.reconciler.reconcile(), self.reconciler.work
        await work.settled()
        return min((one for one in (again, work.due()) if one is not None), default=None)

    async def run(self, passes: int = 1) -> None:
        """Run this number of passes, each with the current Datasets."""
        for _ in range(passes):
            for name in [one["metadata"]["name"] for one in self.kube.objects(DATASETS)]:
                await self.see(name)
            await self.step()

    async def dataset(self, name: str = "imagenet") -> Dataset:
        return Dataset.model_validate(await self.kube.get(DATASETS, name, "vision"))

    async def cache(self, name: str = "a") -> NodeCache:
        return NodeCache.model_validate(await self.kube.get(NODE_CACHES, name))

    async def report(self, warm: int, node: str = "a") -> None:
        """Answer the sidecar's plan, with ``warm`` of 1000 bytes on disk."""
        cache, dataset = await self.cache(node), await self.dataset()
        entry = cache.spec.datasets[0]
        answer = {"id": entry.listing_id, "version": V1, "files": 10, "bytes": 1000}
        row = report(dataset, warm).model_copy(update={"version": entry.version}).wire() | {"listing": answer}
        status = {"datasets": [row], "availableBytes": 10**6, "address": f"{node}:8081"}
        raw = await self.kube.patch(NODE_CACHES, node, {"status": status}, subresource="status")
        self.state.node_caches.put(node, NodeCache.model_validate(raw))
