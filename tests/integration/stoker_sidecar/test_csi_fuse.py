"""Volumes served by the real keeper and FUSE server: cold reads, promotion to native, and a sidecar that is killed."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker_api.dataset import MountMode
from stoker_sidecar.cache.manifest import ManifestInfo
from stoker_sidecar.core.publish import PublishRequest
from stoker_sidecar.csi.keeper_client import KeeperClient
from stoker_sidecar.fs import mounts
from tests.fakes.csi import UID, publish_request
from tests.support.csi_driver import FILES, RunningDriver, node_folder, running_driver, write_version
from tests.support.waiting import eventually

pytestmark = pytest.mark.root


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A child process that is killed at the end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@dataclass
class Node:
    """A node's folder with a version whose files are here but not declared complete, so that FUSE must serve it."""

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
        """The keeper, with no agent and no fetcher; killed at the end, and its servers with it."""
        roots = [f"--{name}-root={self.folder / folder}" for name, folder in (("mount", "mnt"), ("cache", "cache"))]
        options = [f"--run-dir={self.folder / 'run'}", *roots, "--run-as=", "--agent-command=", "--fetcher-command="]
        self.keeper_socket.unlink(missing_ok=True)
        with running(sys.executable, "-m", "stoker_sidecar.keeper", *options):
            await eventually(self.keeper_socket.exists)
            yield

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[RunningDriver]:
        """The driver, with what it remembers of earlier ones on this node."""
        async with running_driver(self.folder, self.info, KeeperClient(self.keeper_socket)) as driver:
            yield driver


@pytest.fixture
def node() -> Iterator[Node]:
    with node_folder() as folder:
        # As a kubelet's folder is: what is mounted below it reaches the containers' mount namespaces.
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        subprocess.run(["mount", "--make-rshared", folder], check=True)
        yield Node(folder, write_version(folder / "cache", complete=False))


@dataclass
class Container:
    """A mount namespace that shows the volume at ``seen``, with HostToContainer propagation."""

    seen: Path

    def read(self) -> dict[str, bytes]:
        return {path: (self.seen / path).read_bytes() for path in FILES}


@contextmanager
def container(node: Node) -> Iterator[Container]:
    inside = node.folder / "container"
    inside.mkdir()
    script = 'mount --rbind "$0" "$1" && echo ready && exec sleep 600'
    unshare = ("unshare", "--mount", "--propagation", "slave", "sh", "-c")
    with running(*unshare, script, str(node.request.target), str(inside)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield Container(Path(f"/proc/{process.pid}/root") / inside.relative_to("/"))


async def test_a_dataset_that_is_not_complete_is_read_through_fuse(node: Node) -> None:
    async with node.keeper(), node.agent() as agent:
        await agent.publisher.publish(node.request)
        with container(node) as pod:
            assert await asyncio.to_thread(pod.read) == FILES


async def test_a_promotion_reaches_a_running_container_and_its_open_files_go_on(node: Node) -> None:
    async with node.keeper(), node.agent() as agent:
        await agent.publisher.publish(node.request)
        with container(node) as pod, ExitStack() as files:
            opened = files.enter_context((pod.seen / "labels.csv").open("rb"))
            before = pod.seen.stat().st_dev
            node.complete()
            await agent.publisher.settle(UID, node.info.digest)
            assert pod.seen.stat().st_dev != before
            assert await asyncio.to_thread(opened.read) == FILES["labels.csv"]
            assert pod.read() == FILES


async def test_unpublish_after_a_promotion_leaves_no_mount_and_no_server(node: Node) -> None:
    async with node.keeper(), node.agent() as agent:
        await agent.publisher.publish(node.request)
        node.complete()
        await agent.publisher.settle(UID, node.info.digest)
        await agent.publisher.unpublish(node.request.target)
        assert mounts.layers(node.request.target) == ()
        assert mounts.layers(node.folder / "mnt" / UID / node.info.digest) == ()


async def test_a_restarted_agent_changes_nothing_for_the_pod(node: Node) -> None:
    async with node.keeper():
        async with node.agent() as agent:
            await agent.publisher.publish(node.request)
        before = mounts.layers(node.request.target)
        async with node.agent() as agent:
            await agent.publisher.restore()
            assert mounts.layers(node.request.target) == before


@pytest.mark.parametrize(("complete", "mode"), [(False, MountMode.FUSE), (True, MountMode.NATIVE)])
async def test_after_the_whole_sidecar_was_killed_a_running_container_reads_again(
    node: Node, complete: bool, mode: MountMode
) -> None:
    with ExitStack() as pods:
        async with node.keeper(), node.agent() as agent:
            await agent.publisher.publish(node.request)
            pod = pods.enter_context(container(node))
        await eventually(lambda: mounts.is_dead(node.request.target))
        if complete:
            node.complete()
        async with node.keeper(), node.agent() as agent:
            await agent.publisher.restore()
            assert await asyncio.to_thread(pod.read) == FILES
            assert agent.publisher.rows()[0].mode is mode
