"""A version mounted by pods, the part of an agent that receives reads, and the real observer."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_workload import EvidenceSource
from stoker_sidecar.agent.observation.observation import Observation
from stoker_sidecar.agent.observation.workloads import SourceCounts
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.linux.mounts import overlay
from stoker_sidecar.version.layout import CachePaths
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.volumes.layers import metadata_layer
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.access_protocol import SOCKET
from tests.fakes.volumes import UID, publish_request
from tests.support.csi_driver import FILES, node_folder, write_version
from tests.support.layer_forms import best_form
from tests.support.version_readers import InProcessReader
from tests.support.waiting import eventually

NOBODY = 0  # no process is of the sidecar's family: the test's readers are in its own process


@dataclass
class ObservedNode:
    """One mounted version. ``seen`` is the pod's path."""

    folder: Path
    seen: Path
    record: Published
    plan: NodePlan
    observation: Observation
    observers: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def counts(self) -> SourceCounts:
        """The version's reads observed by fanotify."""
        return self.observation.workloads.counts.get((UID, EvidenceSource.FANOTIFY), SourceCounts())

    def start_observer(self, cpu: str = "0.05") -> "subprocess.Popen[bytes]":
        """Start the real observer, limited to the cache folder."""
        command = [sys.executable, "-m", "stoker_sidecar.helpers.observer.main", "--cpu", cpu]
        command += ["--socket", str(self.folder / "run" / SOCKET), "--readable", str(self.folder / "cache")]
        self.observers.append(subprocess.Popen(command))
        return self.observers[-1]

    def end_observers(self) -> None:
        """Kill the running observers."""
        for process in self.observers:
            process.kill()
            process.wait()
        self.observers.clear()

    def mount_anew(self) -> None:
        """Replace the mounted overlay with a new one of the same layers."""
        overlay.unmount(self.seen)
        overlay.mount(_layers(self.folder, self.record.folder / "tree"), self.seen)

    async def until(self, condition: Callable[[], bool], seconds: float = 30) -> None:
        """Wait for a condition while the agent's part runs."""
        await eventually(condition, seconds)

    async def until_seen(self) -> None:
        """Read a file until the observer has seen it: then it is watching."""
        path = next(path for path in self.seen.rglob("*") if path.is_file())

        def look() -> bool:
            path.read_bytes()
            return self.counts.opens > 0

        await self.until(look)


@asynccontextmanager
async def observed_node(
    mode: MountMode = MountMode.NATIVE, files: Mapping[str, bytes] = FILES, pods: Sequence[str] = ("trainer-0",)
) -> AsyncIterator[ObservedNode]:
    """Run the agent's part for one version, mounted in this way by these pods. No observer runs at first."""
    with node_folder() as folder:
        info = write_version(folder / "cache", files)
        paths = CachePaths(folder / "cache").dataset(UID).version(info.digest)
        with _mounted(folder, mode, info.digest) as seen:
            records = [
                Published(publish_request(pod), UID, info.digest, paths.folder, info.files, info.bytes, mode, False)
                for pod in pods
            ]
            plan = NodePlan()
            (folder / "run").mkdir()
            observation = Observation(
                plan,
                lambda: records,
                CacheFolders([folder / "cache"]),
                mount_root=folder / "mnt",
                run_dir=folder / "run",
                cgroups=folder,
                family=NOBODY,
                reader=InProcessReader(),
            )
            node = ObservedNode(folder, seen, records[0], plan, observation)
            running = asyncio.create_task(observation.run())
            try:
                yield node
            finally:
                node.end_observers()
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)


@contextmanager
def _mounted(folder: Path, mode: MountMode, digest: str) -> Iterator[Path]:
    paths = CachePaths(folder / "cache").dataset(UID).version(digest)
    if mode is MountMode.NATIVE:
        yield paths.tree
        return
    mountpoint, layers = folder / "mnt" / UID / (digest + overlay.SUFFIX), _layers(folder, paths.tree)
    layers.fuse.mkdir()
    metadata_layer.build(paths.manifest, layers.metadata, form=best_form())
    overlay.mount(layers, mountpoint)
    try:
        yield mountpoint
    finally:
        overlay.unmount(mountpoint)


def _layers(folder: Path, tree: Path) -> overlay.OverlayLayers:
    return overlay.OverlayLayers(folder / "layer", tree, folder / "fuse")
