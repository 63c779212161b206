"""A node for tests of volumes: real keeper, real driver, and containers that are mount namespaces."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.version.manifest import ManifestInfo
from stoker_sidecar.volumes.core.publish import PublishRequest
from stoker_sidecar.wire.keeper_client import KeeperClient
from tests.fakes.volumes import UID, publish_request
from tests.support.csi_driver import FILES, RunningDriver, node_folder, running_driver, write_version
from tests.support.waiting import eventually


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a child process that is killed at the end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@dataclass
class ColdNode:
    """A node's folder with a version. Its files are local but not marked as complete, so that FUSE must serve it."""

    folder: Path
    info: ManifestInfo

    @property
    def keeper_socket(self) -> Path:
        return self.folder / "run" / "keeper.sock"

    @property
    def request(self) -> PublishRequest:
        return publish_request(target=self.folder / "kubelet" / "pods" / "u1" / "mount")

    def complete(self) -> None:
        (self.folder / "cache" / "datasets" / UID / "versions" / self.info.digest / "complete").touch()

    @asynccontextmanager
    async def keeper(self) -> AsyncIterator[None]:
        """Run the keeper, without agent and fetcher. It and its servers are killed at the end."""
        roots = [f"--{name}-root={self.folder / folder}" for name, folder in (("mount", "mnt"), ("cache", "cache"))]
        options = [f"--run-dir={self.folder / 'run'}", *roots, "--run-as=", "--agent-command=", "--fetcher-command="]
        self.keeper_socket.unlink(missing_ok=True)
        with running(sys.executable, "-m", "stoker_sidecar.keeper.main", *options):
            await eventually(self.keeper_socket.exists)
            yield

    @asynccontextmanager
    async def agent(self, *modes: MountMode) -> AsyncIterator[RunningDriver]:
        """Run the driver, with the state of earlier ones of this node. ``modes`` are the mount modes of the node."""
        keeper = KeeperClient(self.keeper_socket)
        async with running_driver(
            self.folder, self.info, keeper, modes or (MountMode.NATIVE, MountMode.FUSE)
        ) as driver:
            yield driver


@contextmanager
def cold_node() -> Iterator[ColdNode]:
    """Make a node that is removed completely."""
    with node_folder() as folder:
        # Like a kubelet's folder: mounts below it propagate to the containers' mount namespaces.
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        subprocess.run(["mount", "--make-rshared", folder], check=True)
        yield ColdNode(folder, write_version(folder / "cache", complete=False))


@dataclass
class Container:
    """A mount namespace that shows the volume at ``seen``."""

    seen: Path

    def read(self) -> dict[str, bytes]:
        return {path: (self.seen / path).read_bytes() for path in FILES}


@contextmanager
def container(node: ColdNode, propagation: str = "slave") -> Iterator[Container]:
    """Run a container. ``slave`` acts like HostToContainer, ``private`` like a pod with its own volumeMount."""
    inside = node.folder / "container"
    inside.mkdir()
    script = 'mount --rbind "$0" "$1" && echo ready && exec sleep 600'
    unshare = ("unshare", "--mount", "--propagation", propagation, "sh", "-c")
    with running(*unshare, script, str(node.request.target), str(inside)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield Container(Path(f"/proc/{process.pid}/root") / inside.relative_to("/"))
