"""The speed of a source that a node reports, only if nothing else limits a warm-up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from stoker_sidecar.wire.fetcher_protocol import Shares
from tests.fakes.gated_store import GatedStore
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, inode, open_cache_node
from tests.support.waiting import eventually

_SIZE = 1000


@asynccontextmanager
async def warming(root: Path, **changes: Any) -> AsyncIterator[CacheNodeUnderTest]:
    """Open a node in the middle of a warm-up. Four answers of the source have arrived."""
    store = GatedStore()
    fill(store, {f"{number:03}": b"x" * _SIZE for number in range(100)})
    async with open_cache_node(root, {"bucket": store}) as cache_node:
        digest = await cache_node.list()
        await cache_node.configure(**{"listingId": "1", "version": digest, "eager": True, **changes})
        await eventually(lambda: store.waiting >= 4)
        await store.let_go(4)
        await eventually(lambda: cache_node.status().warm_files == 4)
        yield cache_node
        store.let_all_go()


def rates(cache_node: CacheNodeUnderTest) -> dict[str, int]:
    """Return the source rates a second later."""
    cache_node.clock.ahead += 1
    return dict(cache_node.node.progress().source_rates)


async def test_a_warm_up_tells_how_fast_its_source_gives(tmp_path: Path) -> None:
    async with warming(tmp_path) as cache_node:
        assert rates(cache_node).keys() == {UID}


async def test_the_shortest_request_is_reported_to_one_digit(tmp_path: Path) -> None:
    async with warming(tmp_path) as cache_node:
        shortest = cache_node.status().source_milliseconds
        assert shortest is not None
        assert str(shortest).rstrip("0") in "123456789"


async def test_a_dataset_of_which_readers_alone_ask_does_not(tmp_path: Path) -> None:
    store = GatedStore()
    store.let_all_go()
    fill(store, {"a": b"x" * _SIZE, "b": b"x" * _SIZE})
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        digest = await cache_node.list()
        await cache_node.configure(listingId="1", version=digest)
        await cache_node.read(digest, inode(cache_node, digest, "a"), 0, 1)
        assert rates(cache_node) == {}


async def test_a_warm_up_with_a_limit_does_not(tmp_path: Path) -> None:
    async with warming(tmp_path, bytesPerSecond=10**12) as cache_node:
        assert rates(cache_node) == {}


async def test_a_warm_up_that_other_nodes_give_to_does_not(tmp_path: Path) -> None:
    async with warming(tmp_path) as cache_node:
        cache_node.node._datasets[UID].telemetry.gave(_SIZE)
        assert rates(cache_node) == {}


async def test_a_warm_up_whose_requests_wait_for_a_share_does_not(tmp_path: Path) -> None:
    async with warming(tmp_path) as cache_node:
        cache_node.node.share(Shares(({"name": "*", "milliRequestsPerSecond": 1},)))
        reads = [asyncio.create_task(cache_node.read(cache_node.status().version, ino, 0, 1)) for ino in (90, 91)]
        await eventually(lambda: cache_node.node.progress().origin_counts.waiting > 0)
        found = rates(cache_node)
        cache_node.node.share(Shares())
        for read in reads:
            read.cancel()
        assert found == {}
