"""The operator's limits of object stores reach the fetcher, and the fetcher's observations reach the status."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_api.datasets.origin import OriginShare
from stoker_api.meta import ObjectMeta
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec
from stoker_sidecar.agent.planning.fetcher_link import FetcherLink
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.fetcher.handoff_state import HandoffState
from stoker_sidecar.fetcher.server import Server
from stoker_sidecar.wire.credentials import AmbientCredentials
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, open_cache_node
from tests.support.waiting import eventually

BUCKET = "s3://bucket"
HARDLY = OriginShare(name=BUCKET, milli_requests_per_second=10)  # a request in 100 s


class LinkedNode:
    """An agent's plan and a fetcher, with the link between them."""

    def __init__(self, cache: CacheNodeUnderTest, plan: NodePlan) -> None:
        self.cache = cache
        self.plan = plan

    def want(self, *shares: OriginShare, version: str = "") -> None:
        source = Source(uri=f"{BUCKET}/p")
        dataset = NodeDataset(
            namespace="n", name="d", uid=UID, source=source, listing_id="1", version=version, eager=True
        )
        spec = NodeCacheSpec(datasets=(dataset,), origins=shares)
        self.plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="node", generation=1), spec=spec))

    async def listed(self) -> str:
        self.want()
        await eventually(lambda: bool(self.cache.node.progress().datasets))
        status = await self.cache.reach(lambda status: status.listing is not None)
        assert status.listing is not None
        return status.listing.version


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[LinkedNode]:
    store, plan = MemoryStore(), NodePlan()
    fill(store, {f"f{number}": b"content" for number in range(5)})
    async with open_cache_node(tmp_path / "cache", {"bucket": store}) as cache:
        with tempfile.TemporaryDirectory() as short:
            socket = Path(short) / "fetcher.sock"
            server = Server(cache.node, socket, HandoffState(None))
            await server.start()
            link = asyncio.create_task(FetcherLink(socket, plan, dict).run())
            plan.take_credentials(UID, AmbientCredentials())
            yield LinkedNode(cache, plan)
            link.cancel()
            await asyncio.wait([link])
            await server.close()


async def test_a_node_holds_to_its_share_until_it_is_told_otherwise(node: LinkedNode) -> None:
    version = await node.listed()
    node.want(HARDLY)
    await eventually(lambda: node.cache.node.progress().origins != ())

    node.want(HARDLY, version=version)
    await eventually(lambda: node.plan.origin_counts.waiting > 0)
    assert node.cache.status().phase is NodePhase.WARMING
    assert [(row.name, row.fetching) for row in node.plan.origins] == [(BUCKET, True)]

    node.want(version=version)
    await node.cache.reach(lambda status: status.phase is NodePhase.WARM)
