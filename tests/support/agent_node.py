"""The agent of one node in the test's process, with an API server in memory and a fetcher that only listens."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_kube.api import Object
from stoker_kube.resources import NODE_CACHES
from stoker_sidecar.agent.main import build
from stoker_sidecar.agent.settings import AgentSettings
from stoker_sidecar.linux.hardware import boot_id
from stoker_sidecar.version.layout import CachePaths
from stoker_sidecar.wire.fetcher_protocol import Progress
from tests.fakes.fetcher import GIB, FetcherForAgent
from tests.fakes.kube import FakeKube
from tests.support.ports import free_ports
from tests.support.waiting import SECONDS, eventually

DIGEST = "d" * 64
DATASET: Object = {
    "namespace": "vision",
    "name": "digits",
    "uid": "u1",
    "generation": 1,
    "version": DIGEST,
    "source": {"uri": "s3://bucket/digits/", "credentials": {"secretRef": {"name": "s3"}}},
}


def row(**figures: Any) -> Object:
    known = {"namespace": "vision", "name": "digits", "uid": "u1", "version": DIGEST, "observed_generation": 1}
    return dict(NodeDatasetStatus.model_validate(known | figures).wire())


def progress(*rows: Object, orphans: tuple[str, ...] = ()) -> Progress:
    return Progress(rows, GIB, 100 * GIB, 50 * GIB, dict.fromkeys(orphans, (DIGEST,)))


@dataclass
class RunningAgent:
    """A node with a running agent."""

    kube: FakeKube
    fetcher: FetcherForAgent
    folder: Path
    agent: asyncio.Task[None]
    stopping: asyncio.Event
    http_port: int
    learning_port: int

    async def plan(self, *datasets: Object, **spec: Any) -> None:
        body = {"metadata": {"name": "node-1"}, "spec": {"datasets": list(datasets)} | spec}
        await self.kube.apply(NODE_CACHES, body, field_manager="operator")

    @property
    def status(self) -> Object:
        """NodeCache.status in the API server."""
        return next((dict(cache.get("status", {})) for cache in self.kube.objects(NODE_CACHES)), {})

    @property
    def row(self) -> Object:
        """The status of the first dataset."""
        return next(iter(self.status.get("datasets", [])), {})

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition while the agent runs. If the agent ends early, raise its error."""
        await eventually(lambda: self.agent.done() or condition())
        if self.agent.done():
            self.agent.result()

    async def stop(self) -> None:
        self.stopping.set()
        async with asyncio.timeout(SECONDS):
            await self.agent


def open_folder(cache: Path) -> None:
    """Mark a cache folder as opened in this boot, as the fetcher does."""
    cache.mkdir(exist_ok=True)
    CachePaths(cache).boot.write_text(boot_id())


@contextlib.asynccontextmanager
async def agent_node(kube: FakeKube, folder: Path) -> AsyncIterator[RunningAgent]:
    """Run an agent on ``folder``, which needs a short path, with an API server in memory. It ends with the block."""
    folders = [f"--{name}={folder / name}" for name in ("kubelet-dir", "cache-root", "mount-root", "state-dir")]
    open_folder(folder / "cache-root")
    http, peers, learning = free_ports(3)
    options = ["--node-name=node-1", "--pod-ip=127.0.0.1", f"--run-dir={folder}", "--namespace=stoker"]
    options += [f"--http-port={http}", f"--peer-port={peers}", f"--learning-port={learning}"]
    settings = AgentSettings.parse([*options, "--floor-bytes=0", *folders])
    stopping = asyncio.Event()
    task = asyncio.create_task(build(settings, kube).run(stopping))
    node = RunningAgent(kube, FetcherForAgent(), folder, task, stopping, http, learning)
    try:
        await node.fetcher.start(folder / "fetcher.sock")
        yield node
    finally:
        await node.stop()
        await node.fetcher.stop()
