"""Writes and reads each format that releases exchange, with the code of the release on PYTHONPATH.

``python tests/golden/samples.py write FOLDER`` makes the golden files. ``read FOLDER`` prints a release's readings.
Only modules of release d853cc78 may be imported here. test_golden_files.py knows which of them have moved since.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stoker_api.datasets.dataset import MountMode
from stoker_api.datasets.dataset_source import Source
from stoker_api.goodput import EndedPod
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import ListingResult, NodeDatasetStatus, NodePhase
from stoker_api.node_caches.node_storage import MountPhase, NodeMount
from stoker_api.node_caches.nodecache import NodeCacheSpec
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_kube.watch import EventType, WatchEvent
from stoker_operator.core.views.node_cache_reader import NodeCacheReader
from stoker_sidecar.agent.kube import node_cache
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.agent.pods import pod_accounts
from stoker_sidecar.keeper.takeover import messages
from stoker_sidecar.keeper.takeover.leader_lock import LeaderLock
from stoker_sidecar.version.builder import ManifestBuilder
from stoker_sidecar.version.layout import DatasetPaths
from stoker_sidecar.version.listing import read_listing
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.version.objects import ListedObject
from stoker_sidecar.volumes.core.publish import Published, PublishRequest
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_sidecar.volumes.mount_table import MountTable
from stoker_sidecar.volumes.report_volumes import ReportVolumes
from stoker_sidecar.wire.credentials import StaticCredentials
from stoker_sidecar.wire.fetcher_protocol import Configure, Shares, decode_request, encode_request
from stoker_tuning.frameworks.pod_hints import FrameworkSource, PodHints

UID, DIGEST = "5f0c8d52-7a53-4a5e-9d3b-000000000001", "d1" * 32
_PODS = Path("/var/lib/kubelet/pods")
_HINTS = PodHints("pytorch", FrameworkSource.IMAGE, batch_size=32, gpus=1, job="resnet")
_DATASET = NodeDataset(
    namespace="vision", name="imagenet", uid=UID, source=Source(uri="s3://bucket/p/"), version=DIGEST
)


class _NoMounts:
    """Mounts nothing."""

    async def bind(self, *_: object) -> None:
        return None


def _target(pod: str) -> Path:
    return _PODS / f"uid-{pod}" / "volumes" / "kubernetes.io~csi" / "data" / "mount"


def _record(pod: str, mode: MountMode, *, ephemeral: bool) -> Published:
    request = PublishRequest(
        volume_id=f"csi-{pod}" if ephemeral else "imagenet-pv",
        target=_target(pod),
        dataset_namespace="vision",
        dataset="imagenet",
        pod_namespace="vision",
        pod=pod,
        pod_uid=f"uid-{pod}",
        ephemeral=ephemeral,
        version="" if ephemeral else DIGEST,
        hints=_HINTS,
        sampling='{"seed":7}',
    )
    folder = Path(f"/var/lib/stoker/cache/datasets/{UID}/versions/{DIGEST}")
    below = mode is not MountMode.NATIVE
    return Published(request, UID, DIGEST, folder, 3, 300, mode, fuse=below, overlay=mode is MountMode.OVERLAY)


def _nodecache() -> dict[str, Any]:
    mounts = (
        NodeMount(
            volume_id="csi-a",
            dataset_namespace="vision",
            dataset="imagenet",
            pod_namespace="vision",
            pod="a",
            pod_uid="uid-a",
            version=DIGEST,
            phase=MountPhase.MOUNTED,
            mode=MountMode.OVERLAY,
        ),
    )
    row = NodeDatasetStatus(namespace="vision", name="imagenet", uid=UID, version=DIGEST, phase=NodePhase.WARM)
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "NodeCache",
        "metadata": {"name": "node-1", "uid": "1", "generation": 3},
        "spec": NodeCacheSpec(datasets=(_DATASET,)).wire(),
        "status": NodeCacheStatus(mounts=mounts, datasets=(row,)).wire(),
    }


def write(folder: Path) -> None:
    """Write every sample into a folder."""
    table = MountTable(folder / "mounts.json")
    for pod, mode, ephemeral in (("a", MountMode.OVERLAY, True), ("b", MountMode.NATIVE, False)):
        table.put(_record(pod, mode, ephemeral=ephemeral))
    (folder / "reports").mkdir()
    reports = ReportVolumes(folder / "reports", folder / "report-volumes.json", _NoMounts())  # type: ignore[arg-type]
    asyncio.run(reports.publish(ReportVolume("csi-r", _target("r"), "vision", "r", "uid-r", _HINTS)))
    ended = EndedPod(pod="vision/old", uid="uid-old", mounted_seconds=12.5, saved_seconds=3.0)
    accounts = pod_accounts._Remembered(ended=(ended,), left_out=2)
    (folder / "pod-accounts.json").write_text(accounts.model_dump_json(by_alias=True, exclude_none=True))
    LeaderLock(folder, "pod-1").register()
    told = [
        messages.hello(messages.Hello("pod-2")),
        messages.offer(messages.Offer(1)),
        messages.mount(messages.MountRow(UID, DIGEST, "/m", "/v", "/mnt", ready=True)),
    ]
    (folder / "takeover.json").write_text(json.dumps(told))
    lines = (
        Configure(_DATASET.wire(), StaticCredentials("key", "secret"), (DIGEST,)),
        Shares(({"name": "*", "bytesPerSecond": 5},)),
    )
    (folder / "handoff.jsonl").write_bytes(b"".join(encode_request(0, line) for line in lines))
    (folder / "nodecache.json").write_text(json.dumps(_nodecache()))
    listing = ListingResult(id="l1", version=DIGEST, files=3, bytes=300)
    (folder / "listing.json").write_text(json.dumps(listing.wire()))
    with ManifestBuilder(folder / "manifest.sqlite") as builder:
        builder.add([ListedObject(b"a/b.jpg", 300, 0, "etag", "")])
        builder.finish()


def _mounts(folder: Path) -> list[list[Any]]:
    records = MountTable(folder / "mounts.json").all()
    return [
        [
            *(str(row.request.target), row.request.name, row.request.pod, row.uid, row.version, row.mode, row.fuse),
            *(row.overlay, row.request.ephemeral, row.request.hints.job, row.request.sampling),
        ]
        for row in records
    ]


def _reports(folder: Path) -> list[Any]:
    found = ReportVolumes(folder / "reports", folder / "report-volumes.json", _NoMounts()).get(  # type: ignore[arg-type]
        _target("r")
    )
    return [] if found is None else [found.pod_name, found.pod_uid, found.hints.batch_size]


def _takeover(folder: Path) -> list[Any]:
    hello, offer, mount = json.loads((folder / "takeover.json").read_text())
    return [
        asdict(messages.parse_hello(hello)),
        messages.parse_offer(offer).mounts,
        asdict(messages.parse_mount(mount)),
    ]


def _handoff(folder: Path) -> list[Any]:
    lines = (folder / "handoff.jsonl").read_bytes().splitlines(keepends=True)
    configure, shares = (decode_request(line)[1] for line in lines)
    assert isinstance(configure, Configure)
    assert isinstance(shares, Shares)
    dataset = NodeDataset.model_validate(configure.dataset)
    return [dataset.name, dataset.version, list(configure.held), [dict(row)["name"] for row in shares.rows]]


def _plan(folder: Path) -> list[Any]:
    plan, raw = NodePlan(), json.loads((folder / "nodecache.json").read_text())
    node_cache._take(WatchEvent(EventType.ADDED, raw), plan)
    return [plan.generation, [one.name for one in plan.datasets], {uid: row.phase for uid, row in plan.rows.items()}]


def _operator(folder: Path) -> list[Any]:
    cache = NodeCacheReader().view(json.loads((folder / "nodecache.json").read_text()))
    return [[row.pod, row.phase, row.version] for row in cache.status.mounts]


def _listing(folder: Path) -> list[Any]:
    found = read_listing(DatasetPaths(folder))
    return [] if found is None else [found.id, found.version, found.files]


def _manifest(folder: Path) -> list[int]:
    manifest = Manifest.open(folder / "manifest.sqlite")
    try:
        return [manifest.info.files, manifest.info.bytes]
    finally:
        manifest.close()


def _accounts(folder: Path) -> dict[str, object]:
    return pod_accounts._read(folder / "pod-accounts.json").wire()


def _keepers(folder: Path) -> list[str]:
    return LeaderLock(folder, "pod-1")._order()


# A release's reading of each sample, in JSON.
READERS: Mapping[str, Callable[[Path], Any]] = {
    "mounts": _mounts,
    "reports": _reports,
    "accounts": _accounts,
    "keepers": _keepers,
    "takeover": _takeover,
    "handoff": _handoff,
    "plan": _plan,
    "operator": _operator,
    "listing": _listing,
    "manifest": _manifest,
}


def read(folder: Path) -> dict[str, Any]:
    """Return this release's reading of every sample."""
    return {name: reader(folder) for name, reader in READERS.items()}


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]))
    else:
        print(json.dumps(read(Path(sys.argv[2]))))
