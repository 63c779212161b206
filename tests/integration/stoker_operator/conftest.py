"""A leading operator and scripted sidecars on a real API server."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_kube.client import KubeClient
from stoker_kube.errors import NotFound
from stoker_kube.resources import DATASETS, EVENTS, NODE_CACHES, NODES, PODS, SERVICE_ACCOUNTS, Kind
from stoker_operator.core.origins.origin_policy import OriginPolicy
from stoker_operator.handlers.front_door import FrontDoor
from stoker_operator.mirror.state import ClusterState
from stoker_operator.processes.leader import Leader
from tests.fakes.sidecar import FakeSidecar, settled
from tests.support.apiserver import ApiServer
from tests.support.kinds import NAMESPACES
from tests.support.waiting import all_sockets_closed, eventually_async

# Buckets of the tests of caps only, one each: nodes of earlier tests count while their NodeCaches exist.
CAPS = {
    "caps": [{"bucket": f"capped-{number}", "bytesPerSecond": "1G", "price": {"perGB": 50}} for number in range(3)],
    "currency": "EUR",
}
SECONDS = 90.0  # a request on a busy two-core machine took 10 s; passes take milliseconds


V2 = "b2" * 32  # another version than that of the scripted sidecars


def is_released(pod: dict[str, Any]) -> bool:
    """Return True if no gate holds the pod."""
    return not pod["spec"].get("schedulingGates")


def mount_is_known(dataset: Dataset) -> bool:
    """Return True if the operator has read the report of a mount. A watch of its own reads Datasets."""
    return any(node.mode for node in dataset.status.nodes)


@dataclass
class World:
    """One test's nodes and namespace. The operator runs in parallel. ``ahead`` is its clock's lead in seconds."""

    kube: KubeClient
    namespace: str
    label: str
    sidecars: list[FakeSidecar] = field(default_factory=list)
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    ahead: float = 0.0

    def clock(self) -> float:
        """Return the operator's time, in seconds since the epoch."""
        return time.time() + self.ahead

    async def add_node(self, label: str = "") -> FakeSidecar:
        """Add a node with this test's label, or a different one, and a sidecar that answers."""
        sidecar = FakeSidecar(self.kube, f"node-{uuid4().hex[:8]}", self.namespace)
        await sidecar.join(test=label or self.label)
        self.tasks.append(asyncio.create_task(sidecar.run()))
        self.sidecars.append(sidecar)
        return sidecar

    async def add_roomy_node(self) -> FakeSidecar:
        """Add a node with room for pods."""
        sidecar = await self.add_node()
        status = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}
        await self.kube.patch(NODES, sidecar.node, status, subresource="status")
        # The node controller, which does not run here, would remove the taint of a new node.
        await self.kube.patch(NODES, sidecar.node, {"spec": {"taints": None}})
        await self.until(NODE_CACHES, sidecar.node, bool)  # the operator makes it, because reports need it
        return sidecar

    async def add_dataset(self, name: str = "digits", **spec: Any) -> None:
        """Create a Dataset that only this test's nodes may hold."""
        cache = {"nodeSelector": {"test": self.label}} | spec.pop("cache", {})
        body = {"source": {"uri": "s3://bucket/"}, "cache": cache} | spec
        await self.kube.create(DATASETS, {"metadata": {"name": name, "namespace": self.namespace}, "spec": body})

    async def refresh(self, sidecar: FakeSidecar, version: str) -> None:
        """Let the node list another version of the Dataset."""
        sidecar.version = version
        change = {"metadata": {"annotations": {names.ANNOTATION_REFRESH_REQUESTED: "2026-11-21T10:00:00Z"}}}
        await self.kube.patch(DATASETS, "digits", change, self.namespace)
        await self.until_dataset(lambda one: one.status.version == version)

    async def add_raw_mount(self, stranger: str, node: str, dataset: str) -> None:
        """Put a pod of another namespace on a node. An inline volume names a Dataset, without the webhook."""
        namespace = f"{self.namespace}-{stranger}"
        await self.kube.create(NAMESPACES, {"metadata": {"name": namespace}})
        home, _, name = dataset.partition("/")
        attributes = {names.CSI_ATTRIBUTE_DATASET: name, names.CSI_ATTRIBUTE_DATASET_NAMESPACE: home}
        volume = {"name": "data", "csi": {"driver": names.CSI_DRIVER, "volumeAttributes": attributes}}
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "none"}], "volumes": [volume]}
        await self.kube.create(PODS, {"metadata": {"name": stranger, "namespace": namespace}, "spec": spec})

    async def dataset(self, name: str = "digits") -> Dataset:
        """Return the current Dataset."""
        return Dataset.model_validate(await self.kube.get(DATASETS, name, self.namespace))

    async def until_dataset(self, condition: Callable[[Dataset], bool], name: str = "digits") -> Dataset:
        """Return the Dataset when the condition holds. Raises TimeoutError with its last state."""
        return Dataset.model_validate(
            await self.until(DATASETS, name, lambda raw: condition(Dataset.model_validate(raw)))
        )

    async def until(self, kind: Kind, name: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the object when the condition holds. Raises TimeoutError with its last state."""
        namespace = self.namespace if kind.namespaced else ""
        last: dict[str, Any] = {}

        async def look() -> dict[str, Any] | None:
            last.clear()
            for task in self.tasks:
                if task.done():
                    task.result()  # a failed scripted sidecar no longer answers
            try:
                last.update(await self.kube.get(kind, name, namespace))
            except NotFound:
                return None
            return dict(last) if condition(last) else None

        try:
            return await eventually_async(look, SECONDS)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; last: {await self._scene(last)}") from None

    async def _scene(self, last: dict[str, Any]) -> str:
        """Return text with the object's last state, and the plans and statuses of this test's nodes."""
        caches = [
            await self.kube.list(NODE_CACHES, field_selector=f"metadata.name={one.node}") for one in self.sidecars
        ]
        nodes = [{key: item.get(key) for key in ("spec", "status")} for found in caches for item in found.items]
        shown = {key: last.get(key) for key in ("metadata", "spec", "status")}
        shown["metadata"] = {**(shown["metadata"] or {}), "managedFields": "left out"}
        return json.dumps([shown, *nodes])

    async def until_gone(self, kind: Kind, name: str) -> None:
        """Wait until this object does not exist."""

        async def look() -> bool | None:
            try:
                await self.kube.get(kind, name, self.namespace if kind.namespaced else "")
            except NotFound:
                return True
            return None

        await eventually_async(look, SECONDS)

    async def until_events(self, *reasons: str) -> None:
        """Wait until events of all these reasons exist for Datasets. They are written after the status."""
        await self.until_told("Dataset", *reasons)

    async def until_told(self, kind: str, *reasons: str) -> None:
        """Do as ``until_events`` for objects of another kind."""

        async def look() -> bool | None:
            found = (await self.kube.list(EVENTS, self.namespace)).items
            told = {event["reason"] for event in found if event["involvedObject"]["kind"] == kind}
            return set(reasons) <= told or None

        await eventually_async(look, SECONDS)


@pytest.fixture
async def kube(apiserver: ApiServer) -> AsyncIterator[KubeClient]:
    """Connect as the administrator, for tests without an operator."""
    async with await apiserver.client() as client:
        yield client


@pytest.fixture
async def world(apiserver: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """Make a namespace with a leading operator, which stops with the test."""
    monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig))
    namespace = f"test-{uuid4().hex[:8]}"
    async with await apiserver.client() as kube:
        for name in (namespace, names.node_accounts_namespace(namespace)):
            await kube.create(NAMESPACES, {"metadata": {"name": name}})
        await kube.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": namespace}})
        stop = asyncio.Event()
        state = ClusterState(namespace)
        front_door = FrontDoor(kube, state)
        watching = asyncio.create_task(front_door.run())
        made = World(kube, namespace, label=namespace)
        leader = Leader(kube, state, made.clock, origins=OriginPolicy.model_validate(CAPS))
        leading = asyncio.create_task(leader.run(front_door.wait_whole, stop))
        yield made
        stop.set()
        await asyncio.wait_for(leading, SECONDS)
        await settled(watching)
        for task in made.tasks:
            await settled(task)
    await all_sockets_closed()
