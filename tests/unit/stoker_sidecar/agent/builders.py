"""Shared builders for tests of the agent: requests of the kubelet, facts of a node, and its tenants."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import MountMode
from stoker_api.datasets.dataset_source import Source
from stoker_api.datasets.dataset_status import SkippedKeys
from stoker_api.datasets.origin import NodeOrigin
from stoker_api.goodput import MOST_ENDED, EndedPod
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import (
    ListingResult,
    NodeDatasetStatus,
    NodeError,
    NodePhase,
    OlderVersionStatus,
)
from stoker_api.node_caches.node_hardware import NodeDisk, NodeHardware
from stoker_api.node_caches.node_storage import CacheFolder, NodeMount
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache_status import NodePlugin
from stoker_sidecar.agent.core.disk_figures import DiskFigures
from stoker_sidecar.agent.core.status import (
    Facts,
)
from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_sidecar.agent.csi.request import (
    parse_publish,
)
from stoker_sidecar.agent.observation.readers import ReaderProcesses
from stoker_sidecar.errors import VolumeError
from stoker_sidecar.volumes.core.publish import pending_row

KUBELET = Path("/var/lib/kubelet")
TARGET = f"{KUBELET}/pods/uid/volumes/kubernetes.io~csi/data/mount"
MODE = csi_pb2.VolumeCapability.AccessMode


def capability(mode: int = MODE.SINGLE_NODE_WRITER) -> csi_pb2.VolumeCapability:
    return csi_pb2.VolumeCapability(mount={}, access_mode={"mode": mode})


def inline(**fields: object) -> csi_pb2.NodePublishVolumeRequest:
    """Make the request that the kubelet sends for an inline volume."""
    context = {
        "dataset": "imagenet",
        names.CSI_POD_NAMESPACE: "vision",
        names.CSI_POD_NAME: "trainer-0",
        names.CSI_POD_UID: "u1",
        names.CSI_EPHEMERAL: "true",
    }
    base: dict[str, Any] = {
        "volume_id": "csi-1",
        "target_path": TARGET,
        "volume_capability": capability(),
        "volume_context": context,
        "readonly": True,
    }
    return csi_pb2.NodePublishVolumeRequest(**base | fields)


def context_of(**changes: str | None) -> dict[str, str]:
    merged = dict(inline().volume_context) | {key.replace("__", "/"): value for key, value in changes.items()}
    return {key: value for key, value in merged.items() if value is not None}


DIGITS = NodeDataset(namespace="vision", name="digits", uid="u1", source=Source(uri="s3://bucket/digits/"))
ROW = NodeDatasetStatus(
    namespace="vision",
    name="digits",
    uid="u1",
    phase=NodePhase.WARMING,
    version="d1",
    files=10,
    bytes=100,
    warm_files=3,
)
GIB = 2**30


def facts(**changes: Any) -> Facts:
    base = Facts(
        profiles=(),
        figures=(),
        generation=4,
        plan=(DIGITS,),
        rows={"u1": ROW},
        leftovers=frozenset(),
        found={},
        inventory=True,
        mounts=(),
        workloads=(),
        disk=DiskFigures(capacity=100 * GIB, used=GIB, available=50 * GIB),
        folders=(CacheFolder(path="/cache", available_bytes=50 * GIB),),
        modes=(MountMode.NATIVE, MountMode.FUSE),
        modes_message="",
        confinement="Landlock, version 7",
        observer="Fanotify, with 1.00% of a core",
        refused={},
        address="10.0.0.1:8081",
        version="0.1.0",
        trouble="",
        now="2026-01-01T00:00:00Z",
    )
    return replace(base, **changes)


FEW = [f"few-{number}" for number in range(5)]


def asked(number: int, namespace: str, length: int, pending: bool = True) -> list[NodeMount]:
    """Return the row of an inline volume whose Dataset name has this length, or no row if it is rejected."""
    names = {"csi.storage.k8s.io/pod.namespace": namespace, "csi.storage.k8s.io/pod.name": "p" * 253}
    context = context_of(dataset=f"{number}-" + "d" * length, **names)
    with suppress(VolumeError):
        row = pending_row(parse_publish(inline(volume_id=f"csi-{number:0500}", volume_context=context), KUBELET))
        return [row]
    return []


def dataset(number: int, namespace: str, text: str) -> tuple[NodeDataset, NodeDatasetStatus]:
    error = NodeError(reason="ServerError", message=text)
    name, uid = f"d{number}", f"{namespace}-{number}"
    row = NodeDatasetStatus(
        namespace=namespace,
        name=name,
        uid=uid,
        version="d" * 64,
        error=error,
        listing=ListingResult(id="l", error=error, skipped=(SkippedKeys(reason="Shadowed", count=1, example=text),)),
        retained=("e" * 64,) * (len(text) % 30),
        older=(OlderVersionStatus(version="f" * 64, error=error),) * (len(text) % 3),
    )
    return NodeDataset(namespace=namespace, name=name, uid=uid, source=Source(uri="s3://bucket/x/")), row


def ended(number: int, namespace: str) -> EndedPod:
    return EndedPod(pod=f"{namespace}/{'p' * 250}", uid=str(number), job="j" * 253)


def world(requests: int, length: int, datasets: int, namespaces: int, text: str) -> dict[str, Any]:
    """Return the maximum load of tenants on a node, and five namespaces with little load."""
    many = [f"many-{number}" for number in range(namespaces)]
    entries = [dataset(number, many[number % namespaces], text) for number in range(datasets)]
    entries += [dataset(number, namespace, "short") for number, namespace in enumerate(FEW)]
    mounts = [row for number in range(requests) for row in asked(number, many[number % namespaces], length)]
    mounts += [row for number, namespace in enumerate(FEW) for row in asked(number, namespace, 10)]
    word = text[:40]
    workload = NodeWorkload(pod="many-0/p", problem=text[:256], phase=word, datasets=(f"many-0/{word}",) * 20)
    return {
        "plan": tuple(entry for entry, _ in entries),
        "rows": {row.uid: row for _, row in entries},
        "mounts": tuple(mounts),
        "workloads": (workload,) * 10,
        "ended": tuple(ended(number, many[0]) for number in range(MOST_ENDED)),
        "plugins": tuple(NodePlugin(name=word, package=text[:100], message=text) for _ in range(32)),
        "origins": (NodeOrigin(name=f"s3://{text[:390]}"),) * 64,
        "folders": (CacheFolder(path=f"/{text[:4000]}", healthy=False, message=text),) * 16,
        "hardware": NodeHardware(disks=(NodeDisk(path=f"/{text[:4000]}", kind="SSD"),) * 16),
        "trouble": text * 10,
        "modes_message": text,
    }


class KnownReaders(ReaderProcesses):
    """Knows the pod of each process: ``pods`` by pid."""

    def __init__(self, pods: dict[int, str]) -> None:
        super().__init__(family=0)
        self._pods = pods

    def who(self, pids: Collection[int], pods: Collection[str]) -> dict[int, str]:
        return {pid: self._pods.get(pid, "") for pid in pids}
