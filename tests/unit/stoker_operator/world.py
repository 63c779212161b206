"""An API server in memory with the mirror and the reconciler of Datasets, for tests that make pass after pass."""

from typing import Any

from stoker_api.dataset import Dataset
from stoker_api.nodecache import NodeCache
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_kube.resources import DATASETS, NODE_CACHES
from stoker_operator.core.acceptance import parse_dataset
from stoker_operator.core.views import parse_pod
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.datasets import DatasetReconciler
from stoker_operator.writer import Writer
from tests.fakes.kube import FakeKube
from tests.fakes.sidecar import DAEMON_SET
from tests.unit.stoker_operator.builders import NOW, V1, make_node, report


class Recorded(EventRecorder):
    """Keeps events instead of writing them."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def event(self, ref: ObjectRef, type: str, reason: str, message: str) -> None:
        self.seen.append((type, str(reason)))


class World:
    """An API server, the mirror of it, and a clock. Nodes and sidecars exist in the mirror only."""

    def __init__(self, kube: FakeKube | None = None) -> None:
        self.kube = kube or FakeKube()
        self.state = ClusterState("stoker")
        self.events = Recorded()
        self.now = NOW
        self.begin_anew()

    def begin_anew(self) -> None:
        """Have another leader begin, which knows nothing but what the mirror says."""
        self.reconciler = DatasetReconciler(self.state, Writer(self.kube), self.events, lambda: self.now)

    def add_node(self, name: str) -> None:
        self.state.nodes.put(name, make_node(name))
        labels = {"app.kubernetes.io/component": "sidecar"}
        meta = {"namespace": "stoker", "name": f"s-{name}", "labels": labels, "ownerReferences": [DAEMON_SET]}
        raw: dict[str, Any] = {"metadata": meta}
        raw |= {"spec": {"nodeName": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        self.state.pods.put(f"stoker/s-{name}", parse_pod(raw))

    async def add_dataset(self, name: str = "imagenet", **spec: Any) -> None:
        body = {"source": {"uri": "s3://bucket/"}} | spec
        await self.kube.create(DATASETS, {"metadata": {"name": name, "namespace": "vision"}, "spec": body})
        await self.see(name)

    async def see(self, name: str = "imagenet") -> None:
        """Bring the mirror to what the API server has."""
        found = {one["metadata"]["name"]: one for one in self.kube.objects(DATASETS)}
        self.state.datasets.put(f"vision/{name}", parse_dataset(found[name]) if name in found else None)

    async def step(self) -> float | None:
        """Make a pass, and wait for what came of it; gives seconds until the next is due."""
        again, work = await self.reconciler.reconcile(), self.reconciler.work
        await work.settled()
        return min((one for one in (again, work.due()) if one is not None), default=None)

    async def run(self, passes: int = 1) -> None:
        """Make so many passes, each with the Datasets as they are."""
        for _ in range(passes):
            for name in [one["metadata"]["name"] for one in self.kube.objects(DATASETS)]:
                await self.see(name)
            await self.step()

    async def dataset(self, name: str = "imagenet") -> Dataset:
        return Dataset.model_validate(await self.kube.get(DATASETS, name, "vision"))

    async def cache(self, name: str = "a") -> NodeCache:
        return NodeCache.model_validate(await self.kube.get(NODE_CACHES, name))

    async def report(self, warm: int, node: str = "a") -> None:
        """Answer what the sidecar was given, with so many of 1000 bytes warm."""
        cache, dataset = await self.cache(node), await self.dataset()
        entry = cache.spec.datasets[0]
        answer = {"id": entry.listing_id, "version": V1, "files": 10, "bytes": 1000}
        row = report(dataset, warm).model_copy(update={"version": entry.version}).wire() | {"listing": answer}
        status = {"datasets": [row], "availableBytes": 10**6, "address": f"{node}:8081"}
        raw = await self.kube.patch(NODE_CACHES, node, {"status": status}, subresource="status")
        self.state.node_caches.put(node, NodeCache.model_validate(raw))
