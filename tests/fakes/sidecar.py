"""A scripted sidecar: updates its NodeCache as a real one would, with figures that the test sets."""

import asyncio
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import MountMode
from stoker_api.datasets.origin import NodeOrigin
from stoker_api.goodput import EndedPod
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import (
    FailingReads,
    ListingResult,
    NodeDatasetStatus,
    NodeError,
    NodePhase,
    OlderVersionStatus,
)
from stoker_api.node_caches.node_storage import MountPhase, NodeMount
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_api.profiles.tuning import NodeProfile, NodeRuleFigures
from stoker_kube.api import Kube
from stoker_kube.errors import NotFound
from stoker_kube.resources import NODE_CACHES, NODES, PODS
from stoker_kube.watch import EventType, watch

FILES, BYTES = 1797, 2_000_000
VERSION = "a1" * 32
DAEMON_SET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "name": "stoker-sidecar",
    "uid": "5a5a5a5a-0000-4000-8000-000000000001",
    "controller": True,
}
READY = [{"type": "Ready", "status": "True"}]


class FakeSidecar:
    """One node's sidecar. Change its fields, then ``await report()``. ``run`` answers new specs."""

    def __init__(self, kube: Kube, node: str, namespace: str) -> None:
        self._kube = kube
        self.node = node
        self.namespace = namespace
        digest = sha256(node.encode()).digest()
        self.ip = f"10.{digest[0]}.{digest[1]}.{digest[2]}"  # resourceVersion of its pod
        self.cache: NodeCache | None = None
        self.answers = True  # whether listings are answered
        self.share = 0.0  # local share of each eager dataset
        self.older_share = 0.0  # local share of each older version in its plan
        self.version = VERSION  # result of a listing
        self.error: NodeError | None = None  # error of a listing
        self.failing_reads: FailingReads | None = None  # of each dataset
        self.mounts: dict[str, NodeMount] = {}  # by pod
        self.workloads: tuple[NodeWorkload, ...] = ()
        self.ended: tuple[EndedPod, ...] = ()
        self.profiles: tuple[NodeProfile, ...] = ()
        self.figures: tuple[NodeRuleFigures, ...] = ()
        self.origins: tuple[NodeOrigin, ...] = ()
        self.peer_key = ""
        self.cleaned: list[str] = []  # UIDs of deleted data
        self._disk: dict[str, NodeDatasetStatus] = {}
        self._writing = asyncio.Lock()  # one status at a time, as in a sidecar, so that an older one is never last

    async def join(self, **labels: str) -> None:
        """Make the Node and a ready sidecar pod on it."""
        await self._make_node(labels)
        labels_of_sidecars = {"app.kubernetes.io/component": "sidecar", names.LABEL_NODE_ACCOUNT: "true"}
        name = f"sidecar-{self.node}"
        meta = {
            "name": name,
            "namespace": self.namespace,
            "labels": labels_of_sidecars,
            "ownerReferences": [DAEMON_SET],
        }
        container = {"name": "sidecar", "image": "none"}
        spec: dict[str, Any] = {"nodeName": self.node, "containers": [container]}
        await self._kube.create(PODS, {"metadata": meta, "spec": spec})
        ips = {"podIP": self.ip, "podIPs": [{"ip": self.ip}]}
        status = {"status": {"phase": "Running", "conditions": READY} | ips}
        await self._kube.patch(PODS, str(meta["name"]), status, self.namespace, subresource="status")

    async def _make_node(self, labels: Mapping[str, str]) -> None:
        await self._kube.create(NODES, {"metadata": {"name": self.node, "labels": dict(labels)}})
        await self._kube.patch(NODES, self.node, {"status": {"conditions": READY}}, subresource="status")

    async def register_again(self, **labels: str) -> None:
        """Delete the Node and its NodeCache, and make the Node again. The disk stays."""
        await self._kube.delete(NODES, self.node)
        self.cache = None
        await self._kube.delete(NODE_CACHES, self.node)  # as the garbage collector does
        await self._make_node(labels)

    async def run(self) -> None:
        """Answer every change of the spec until cancelled."""
        async for event in watch(self._kube, NODE_CACHES, field_selector=f"metadata.name={self.node}"):
            if event.type in (EventType.ADDED, EventType.MODIFIED):
                old, self.cache = self.cache, NodeCache.model_validate(event.object)
                if old is None or old.spec != self.cache.spec:
                    await self.report()

    def mount(self, dataset: str, pod: str, *, phase: MountPhase = MountPhase.MOUNTED, pod_namespace: str = "") -> None:
        """Mount the dataset in a pod, by default of its own namespace. ``report`` publishes it."""
        home, _, name = dataset.partition("/")
        self.mounts[pod] = NodeMount(
            volume_id=f"volume-{pod}",
            dataset_namespace=home,
            dataset=name,
            version=VERSION if phase is MountPhase.MOUNTED else "",
            pod_namespace=pod_namespace or home,
            pod=pod,
            phase=phase,
        )

    async def report(self) -> None:
        """Write the status that follows from spec and fields. Without a NodeCache, ``run`` does so once it exists."""
        async with self._writing:
            if self.cache is not None:
                await self._report(self.cache)

    async def _report(self, cache: NodeCache) -> None:
        self._disk = {entry.uid: self._row(entry) for entry in cache.spec.datasets} | self._left(cache.spec)
        status = NodeCacheStatus(
            address=f"{self.node}:8081",
            shared_neighbours=True,
            capacity_bytes=10**12,
            available_bytes=10**12,
            inventory=True,
            datasets=tuple(self._disk.values()),
            mounts=tuple(self.mounts.values()),
            workloads=self.workloads,
            ended=self.ended,
            tuning_profiles=self.profiles,
            tuning=self.figures,
            origins=self.origins,
            peer_key=self.peer_key,
            observed_generation=cache.metadata.generation,
        )
        try:
            await self._kube.patch(NODE_CACHES, self.node, {"status": status.wire()}, subresource="status")
        except NotFound:
            self.cache = None  # deleted, and its event comes later

    def _left(self, spec: NodeCacheSpec) -> dict[str, NodeDatasetStatus]:
        """Return the data on the disk that stays outside the plan. The rest is deleted."""
        left = {uid: row for uid, row in self._disk.items() if uid not in {entry.uid for entry in spec.datasets}}
        kept = [uid for uid in left if spec.keep_unlisted or uid in spec.keep]
        self.cleaned += left.keys() - kept
        return {uid: NodeDatasetStatus(namespace="", name="", uid=uid, retained=(VERSION,)) for uid in kept}

    def _row(self, entry: NodeDataset) -> NodeDatasetStatus:
        before = self._disk.get(entry.uid)
        listing = before.listing if before else None
        if entry.listing_id and self.answers and (listing is None or listing.id != entry.listing_id):
            listing = self._list(entry.listing_id)
        # Data outside the fetch plan stays unchanged.
        kept = before.warm_bytes / BYTES if before is not None and before.version == entry.version else 0.0
        share = (self.share if entry.eager else kept) if entry.version else 0.0
        phase = NodePhase.WARM if share == 1.0 else NodePhase.WARMING if entry.eager else NodePhase.IDLE
        reads = self.failing_reads
        return NodeDatasetStatus(
            namespace=entry.namespace,
            name=entry.name,
            uid=entry.uid,
            observed_generation=entry.generation,
            phase=phase if entry.version else NodePhase.LISTING,
            version=entry.version,
            mode=MountMode.NATIVE if self._is_mounted(entry) else None,  # shows that a reader has this mount
            files=FILES if entry.version else 0,
            bytes=BYTES if entry.version else 0,
            warm_files=int(FILES * share),
            warm_bytes=int(BYTES * share),
            listing=listing,
            # As in a real sidecar: an older version in its plan is on its disk, too. The operator plans no version that
            # no node reports.
            retained=tuple(sorted({*entry.retain, *(one.version for one in entry.older)})),
            older=tuple(self._older(one.version) for one in entry.older),
            failing_reads=reads,
            error=NodeError(reason=reads.reason, message=reads.sentence("reads of pods")) if reads else None,
        )

    def _is_mounted(self, entry: NodeDataset) -> bool:
        mounts = ((one.dataset_namespace, one.dataset, one.phase) for one in self.mounts.values())
        return (entry.namespace, entry.name, MountPhase.MOUNTED) in mounts

    def _older(self, version: str) -> OlderVersionStatus:
        phase = NodePhase.WARM if self.older_share == 1.0 else NodePhase.WARMING
        return OlderVersionStatus(version=version, phase=phase, bytes=BYTES, warm_bytes=int(BYTES * self.older_share))

    def _list(self, listing_id: str) -> ListingResult:
        if self.error:
            return ListingResult(id=listing_id, error=self.error)
        return ListingResult(id=listing_id, version=self.version, files=FILES, bytes=BYTES)


async def settled(task: asyncio.Task[Any]) -> None:
    """Cancel a task of the test and wait for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
