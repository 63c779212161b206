"""Two Datasets of a node. One must leave bandwidth to the other."""

import asyncio
from pathlib import Path
from typing import Any

from stoker_sidecar.wire.fetcher_hints import FileKnobs, Tune
from tests.fakes.gated_store import GatedStore
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, inode, open_cache_node
from tests.support.waiting import eventually

OTHER: dict[str, Any] = {"uid": "uid-2", "name": "other", "source": {"uri": "s3://other/p"}}


async def _in_flight_beside_another(root: Path, knobs: FileKnobs, expected: int) -> int:
    """Return how many of seven reads reach the store while the node warms another Dataset at its best rate.

    ``expected``: wait for this number of reads, and a while longer.
    """
    own, other = GatedStore(), GatedStore()
    fill(own, {f"{number:02}": b"x" * 1000 for number in range(20)})
    fill(other, {f"{number:03}": b"x" * 1000 for number in range(200)})
    async with open_cache_node(root, {"bucket": own, "other": other}) as cache_node:
        digest = await cache_node.list()
        await cache_node.configure(listingId="1", version=digest)
        await _warm_other(cache_node)
        await cache_node.reach(lambda s: s.version == digest)
        cache_node.node.tune(Tune(UID, digest, (knobs,)))
        async with asyncio.TaskGroup() as reads:
            reads.create_task(_read(cache_node, digest, 0))
            await eventually(lambda: own.waiting == 1)
            for _ in range(5):  # windows with as many requests as allowed next to a reader
                await eventually(lambda: other.waiting >= 8)
                await other.let_go(4)
                cache_node.clock.ahead += 2.1
            for number in range(1, 7):
                reads.create_task(_read(cache_node, digest, number))
            await eventually(lambda: own.waiting >= expected)
            for _ in range(50):
                await asyncio.sleep(0)
            asked = own.waiting
            own.let_all_go()
            other.let_all_go()
        return asked


async def _warm_other(cache_node: CacheNodeUnderTest) -> None:
    await cache_node.configure(**OTHER, listingId="1")
    status = await cache_node.reach(lambda s: s.listing is not None, uid="uid-2")
    assert status.listing is not None
    await cache_node.configure(**OTHER, listingId="1", version=status.listing.version, eager=True)


async def _read(cache_node: CacheNodeUnderTest, digest: str, number: int) -> None:
    assert await cache_node.read(digest, inode(cache_node, digest, f"{number:02}"), 0, 10) == b"x" * 10


async def test_readers_with_a_small_share_wait_for_each_other_beside_another_dataset(tmp_path: Path) -> None:
    assert await _in_flight_beside_another(tmp_path, FileKnobs(ahead_files=0, bandwidth=0.01), 2) == 2


async def test_readers_without_a_share_ask_for_all_at_once(tmp_path: Path) -> None:
    assert await _in_flight_beside_another(tmp_path, FileKnobs(ahead_files=0), 7) == 7
