"""Eviction does not drop a version that a pod is mounting: publisher, link and fetcher in one process."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_api.datasets.dataset_source import Source
from stoker_api.meta import ObjectMeta
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_sidecar.agent.planning.fetcher_link import FetcherLink
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.fetcher.handoff_state import HandoffState
from stoker_sidecar.fetcher.server import Server
from stoker_sidecar.volumes.core.publish import PublishRequest
from stoker_sidecar.volumes.mount_sources import MountSources
from stoker_sidecar.volumes.mount_table import MountTable
from stoker_sidecar.volumes.mounted_volumes import MountedVolumes
from stoker_sidecar.volumes.mounter import Mounter
from stoker_sidecar.volumes.publisher import Publisher
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.credentials import AmbientCredentials
from tests.fakes.object_store import MemoryStore
from tests.fakes.volumes import FakeKeeper, FakeMounts, FakeOverlays, publish_request
from tests.support.cache_node import CacheNodeUnderTest, fill, open_cache_node
from tests.support.waiting import eventually

FILES = 10
SIZE = 1000  # bytes of each dataset
CAPACITY = 1500  # room for one of them
ROUNDS = 100
UIDS = ("uid-0", "uid-1")
SETTLED = (NodePhase.WARM, NodePhase.FULL, NodePhase.IDLE)


@dataclass
class Node:
    """A node with an agent's publisher and link, a fetcher behind a socket, and mounts in memory."""

    cache: CacheNodeUnderTest
    plan: NodePlan
    mounts: FakeMounts
    publisher: Publisher
    folder: Path

    def request(self, uid: str) -> PublishRequest:
        return publish_request(uid, dataset=uid, target=self.folder / "pods" / uid / "mount")

    def want(self, **versions: str) -> None:
        datasets = tuple(
            NodeDataset(
                namespace="vision",
                name=uid,
                uid=uid,
                source=Source(uri=f"s3://{uid}"),
                listing_id="1",
                version=versions.get(uid.replace("-", "_"), ""),
                eager=True,
            )
            for uid in UIDS
        )
        spec = NodeCacheSpec(datasets=datasets)
        self.plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="n", generation=1), spec=spec))

    def status(self, uid: str) -> NodeDatasetStatus:
        return self.cache.status(uid)

    async def has_every_file(self, uid: str) -> bool:
        """Whether the pod's view is complete, because a native bind mount has no other source of bytes."""
        (source,) = self.mounts.layers(self.request(uid).target)
        return source.name != "tree" or sum(path.is_file() for path in source.rglob("*")) == FILES


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    stores = {uid: MemoryStore() for uid in UIDS}
    for uid, store in stores.items():
        fill(store, {f"f{index}": uid[-1].encode() * (SIZE // FILES) for index in range(FILES)})
    plan, mounts, keeper = NodePlan(), FakeMounts(), FakeKeeper()
    table = MountTable(tmp_path / "mounts.json")
    modes = (MountMode.NATIVE, MountMode.FUSE)
    sources = MountSources(keeper, FakeOverlays(), table, tmp_path / "mnt", modes)
    find = CacheFolders([tmp_path / "cache"]).find
    volumes = MountedVolumes(table, sources, Mounter(mounts), find, plan.changes.mark)
    publisher = Publisher(plan, volumes, on_change=plan.changes.mark)
    async with open_cache_node(tmp_path / "cache", stores, capacity=CAPACITY) as cache:
        with tempfile.TemporaryDirectory() as short:
            socket = Path(short) / "fetcher.sock"
            server = Server(cache.node, socket, HandoffState(None))
            await server.start()
            link = asyncio.create_task(FetcherLink(socket, plan, publisher.held_versions).run())
            for uid in UIDS:
                plan.take_credentials(uid, AmbientCredentials())
            yield Node(cache, plan, mounts, publisher, tmp_path)
            link.cancel()
            await asyncio.wait([link])
            await server.close()


async def _listed(node: Node) -> dict[str, str]:
    node.want()
    await eventually(lambda: len(node.cache.node.progress().datasets) == len(UIDS))
    versions = {}
    for uid in UIDS:
        status = await node.cache.reach(lambda status: status.listing is not None, uid)
        assert status.listing is not None
        versions[uid.replace("-", "_")] = status.listing.version
    return versions


async def test_a_version_that_is_being_mounted_is_not_dropped_for_another_pods(node: Node) -> None:
    node.want(**await _listed(node))
    await eventually(lambda: any(node.status(uid).warm_files == FILES for uid in UIDS))
    for _ in range(ROUNDS):
        node.cache.clock.ahead += 2  # the free room is requested again
        await asyncio.gather(*(node.publisher.publish(node.request(uid)) for uid in UIDS))
        await eventually(lambda: all(node.status(uid).phase in SETTLED for uid in UIDS))
        assert all([await node.has_every_file(uid) for uid in UIDS])
        await asyncio.gather(*(node.publisher.unpublish(node.request(uid).target) for uid in UIDS))
