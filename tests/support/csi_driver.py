"""The real CSI driver for tests: gRPC on unix sockets, real mounts, and a plan that the test sets."""

import hashlib
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
from google.protobuf.message import Message

from stoker_api.datasets.dataset import MountMode
from stoker_kube.tracing.spans import MountSpans
from stoker_sidecar.agent.csi.driver import Driver, serve_driver
from stoker_sidecar.linux.mounts import mountinfo, target_mounts
from stoker_sidecar.linux.mounts.mount_calls import detach
from stoker_sidecar.version.builder import ManifestBuilder
from stoker_sidecar.version.manifest import ManifestInfo
from stoker_sidecar.version.objects import ListedObject
from stoker_sidecar.volumes.layers.overlays import Overlays
from stoker_sidecar.volumes.layers.scratch.scratch_layers import ScratchLayers
from stoker_sidecar.volumes.mount_sources import FuseServing, MountSources
from stoker_sidecar.volumes.mount_table import MountTable
from stoker_sidecar.volumes.mount_upkeep import MountUpkeep
from stoker_sidecar.volumes.mounted_volumes import MountedVolumes
from stoker_sidecar.volumes.mounter import Mounter
from stoker_sidecar.volumes.publisher import Publisher
from stoker_sidecar.volumes.report_volumes import ReportVolumes
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.config.disk_floor import NO_FLOOR
from tests.fakes.volumes import UID, Clock, FakeKeeper, FakePlan, node_dataset
from tests.support.layer_forms import best_form

FILES = {"train/0.png": b"zero", "train/1.png": b"one", "labels.csv": b"0,1\n"}


@contextmanager
def node_folder() -> Iterator[Path]:
    """Make a folder with a short name, for unix sockets of at most 107 bytes. Unmount all below it at the end."""
    with tempfile.TemporaryDirectory(prefix="csi") as name:
        try:
            yield Path(name)
        finally:
            rows = mountinfo.below(mountinfo.read(), name)
            for row in reversed(list(rows)):
                detach(row.target)


def write_version(cache: Path, files: Mapping[str, bytes] = FILES, *, complete: bool = True) -> ManifestInfo:
    """Write a version onto the cache disk, as the fetcher does."""
    draft = cache / "draft.sqlite"
    cache.mkdir(parents=True, exist_ok=True)
    with ManifestBuilder(draft) as builder:
        builder.add(_listed(path, body) for path, body in files.items())
        info = builder.finish()
    folder = cache / "datasets" / UID / "versions" / info.digest
    folder.mkdir(parents=True)
    draft.rename(folder / "manifest.sqlite")
    for path, body in files.items():
        (folder / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tree" / path).write_bytes(body)
    if complete:
        (folder / "complete").touch()
    return info


def _listed(path: str, body: bytes) -> ListedObject:
    etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
    return ListedObject(path=path.encode(), size=len(body), mtime_ns=10**18, etag=etag, version_id="")


@dataclass
class RunningDriver:
    """The driver and its controls for a test."""

    driver: Driver
    publisher: Publisher
    mounted: MountedVolumes
    upkeep: MountUpkeep
    reports: ReportVolumes
    changes: Changes
    plan: FakePlan
    clock: Clock
    calls: list[tuple[str, str]]

    @property
    def pods(self) -> Path:
        """The kubelet's folder of pods."""
        return self.driver.kubelet_dir / "pods"

    async def call(self, method: str, request: Message, answer: type[Message]) -> Message:
        """Make one call as the kubelet does. ``method`` is ``service/name``. Raises grpc.aio.AioRpcError."""
        registering = method.startswith("pluginregistration")
        socket = self.driver.registration_socket if registering else self.driver.csi_socket
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            ask = channel.unary_unary(
                f"/{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,
            )
            reply: Message = await ask(request)
            return reply


@asynccontextmanager
async def running_driver(
    folder: Path,
    info: ManifestInfo,
    keeper: FuseServing | None = None,
    modes: Collection[MountMode] = (MountMode.NATIVE, MountMode.FUSE),
    spans: MountSpans | None = None,
) -> AsyncIterator[RunningDriver]:
    """Run the driver of node ``node-1`` with ``vision/imagenet`` at version ``info`` in its plan."""
    clock = Clock()
    plan = FakePlan(clock)
    plan.add(node_dataset(version=info.digest))
    table = MountTable(folder / "state" / "mounts.json")
    overlays = Overlays(folder / "state" / "metadata", folder / "mnt", lambda: None, form=best_form())
    names = Overlays(folder / "state" / "names", folder / "mnt", lambda: None, form=best_form(), writable=True)
    refused = "" if MountMode.OVERLAY in modes else "the kernel has no overlays"
    scratch = ScratchLayers(folder / "mnt", names, [folder / "cache"], NO_FLOOR, refused)
    sources = MountSources(keeper or FakeKeeper(), overlays, table, folder / "mnt", modes, scratch=scratch)
    mounted = MountedVolumes(table, sources, Mounter(target_mounts), CacheFolders([folder / "cache"]).find)
    publisher = Publisher(plan, mounted, clock=clock)
    driver = Driver("node-1", "1.2.3", folder / "kubelet")
    calls: list[tuple[str, str]] = []

    def observe(method: str, code: str, _seconds: float) -> None:
        calls.append((method, code))

    changes = Changes()
    root = folder / "state" / "reports"
    root.mkdir(parents=True, exist_ok=True)
    reports = ReportVolumes(root, folder / "state" / "report-volumes.json", Mounter(target_mounts), changes.mark)
    async with serve_driver(driver, publisher, reports, lambda: True, observe, spans):
        upkeep = MountUpkeep(mounted.bindings, sources)
        yield RunningDriver(driver, publisher, mounted, upkeep, reports, changes, plan, clock, calls)
