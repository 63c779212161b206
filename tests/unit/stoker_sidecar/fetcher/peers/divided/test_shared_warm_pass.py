"""Nodes that warm one version at the same time share it. Each byte comes from the source once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.peers.peer_client import Having
from stoker_sidecar.store.base import Body
from stoker_sidecar.wire.fetcher_hints import FileKnobs, Tune
from stoker_sidecar.wire.fetcher_protocol import FETCHED_BYTES, PEER_BYTES
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import UID, CacheNodeUnderTest
from tests.support.divided_nodes import (
    FILES,
    NAMES,
    ONE,
    SHARDS,
    Alone,
    Linked,
    begin,
    count_of,
    nodes,
    whole,
)
from tests.support.waiting import eventually


@pytest.mark.parametrize("content", [FILES, SHARDS, ONE], ids=["small files", "shards", "one large file"])
@pytest.mark.parametrize("count", [2, 3])
async def test_nodes_fetch_each_byte_once_from_the_source(
    tmp_path: Path, content: dict[str, bytes], count: int
) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, content, count, standing=True) as (found, digest):
        linked.nodes = dict(zip(NAMES, found, strict=False))
        await asyncio.gather(*(begin(node, digest, at, count) for at, node in enumerate(found)))
        await asyncio.gather(*map(whole, found))
        assert sum(get.length for get in found[0].store.gets) == sum(map(len, content.values()))
        assert all(node.tree(digest) == content for node in found)


async def test_pieces_for_waiting_peers_are_fetched_a_few_at_a_time(tmp_path: Path) -> None:
    at_once = 0

    class Counting(MemoryStore):
        """Counts the bodies that are being read at the same time."""

        busy = 0

        @asynccontextmanager
        async def get_range(self, path: str, offset: int, length: int, **more: Any) -> AsyncIterator[Body]:
            nonlocal at_once
            self.busy += 1
            at_once = max(at_once, self.busy)
            try:
                async with super().get_range(path, offset, length, **more) as body:
                    await asyncio.sleep(0.01)  # gives concurrent requests time to start
                    yield body
            finally:
                self.busy -= 1

    content = {"model": bytes(6 * CHUNK)}
    async with nodes(tmp_path, Alone(Having(b"", 1)), content, count=1, store=Counting()) as ((node,), digest):
        await begin(node, digest, 0)
        await eventually(lambda: len(node.store.gets) >= 4)
        assert at_once == 1


async def test_a_node_with_its_share_fetches_pieces_that_its_peer_has_not_started(tmp_path: Path) -> None:
    async with nodes(tmp_path, Alone(Having(b"", 1)), ONE, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await eventually(lambda: node.chunks_here(digest) == 4)  # of 5: the last one belongs to the peer
        assert len(node.store.gets) == 4


async def test_of_one_large_file_each_node_fetches_its_share(tmp_path: Path) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, ONE) as ((first, second), digest):
        linked.nodes = dict(zip(NAMES, (first, second), strict=False))
        await asyncio.gather(begin(first, digest, 0), begin(second, digest, 1))
        await asyncio.gather(whole(first), whole(second))
        shares = [count_of(node, FETCHED_BYTES) for node in (first, second)]
        assert min(shares) >= 2 * CHUNK
        assert [count_of(node, PEER_BYTES) for node in (first, second)] == shares[::-1]


@pytest.mark.parametrize("content", [FILES, SHARDS], ids=["small files", "shards"])
async def test_a_late_node_takes_all_files_from_a_warm_peer(tmp_path: Path, content: dict[str, bytes]) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, content) as ((first, second), digest):
        await first.configure(listingId="1", version=digest, eager=True)
        await whole(first)
        linked.nodes, asked = {NAMES[0]: first}, len(first.store.gets)
        await begin(second, digest, 1)
        await whole(second)
        assert len(first.store.gets) == asked
        assert second.tree(digest) == content
        assert (second.status().source_bytes, second.status().peer_bytes) == (0, sum(map(len, content.values())))


async def test_small_files_come_by_fewer_requests_and_are_the_same(tmp_path: Path) -> None:
    linked = Linked(gives=8)
    async with nodes(tmp_path, linked, FILES) as ((first, second), digest):
        await first.configure(listingId="1", version=digest, eager=True)
        await whole(first)
        linked.nodes = {NAMES[0]: first}
        await begin(second, digest, 1)
        await whole(second)
        assert second.tree(digest) == FILES
        assert max(map(len, linked.together)) == 8
        assert len(linked.together) <= len(FILES) / 4
        assert [mtimes(one, digest) for one in (first, second)] == [mtimes(first, digest)] * 2


def mtimes(node: CacheNodeUnderTest, digest: str) -> dict[str, tuple[int, int]]:
    """Return dates and modes of all files of the tree."""
    tree = node.folder(digest) / "tree"
    found = {str(path.relative_to(tree)): path.stat() for path in tree.rglob("*") if path.is_file()}
    return {path: (stat.st_mtime_ns, stat.st_mode) for path, stat in found.items()}


async def test_files_of_several_peers_come_from_the_nearest(tmp_path: Path) -> None:
    content = {f"{number}": bytes([number]) * 1000 for number in range(6)}
    linked = Linked()
    async with nodes(tmp_path, linked, content, count=3) as ((far, node, near), digest):
        for one in (far, near):
            await one.configure(listingId="1", version=digest, eager=True)
            await whole(one)
        linked.nodes = dict(zip(NAMES, (far, node, near), strict=True))
        await begin(node, digest, 1, 3, groups={"distances": [2, 0]})
        await whole(node)
        assert [peer for peer, _ in linked.asked] == ["c:1"] * len(content)


async def test_a_rule_may_let_each_node_fetch_all(tmp_path: Path) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, FILES) as ((first, second), digest):
        linked.nodes = dict(zip(NAMES, (first, second), strict=False))
        for node in (first, second):
            node.node.tune(Tune(UID, digest, (FileKnobs(divided=False),)))
        await asyncio.gather(begin(first, digest, 0), begin(second, digest, 1))
        await asyncio.gather(whole(first), whole(second))
        assert (len(first.store.gets), linked.given) == (2 * len(FILES), 0)


async def test_each_node_fetches_a_large_file_without_proof(tmp_path: Path) -> None:
    store = MemoryStore(etag=lambda content: f"{len(content):032x}-3")
    linked = Linked()
    async with nodes(tmp_path, linked, SHARDS, store=store) as ((first, second), digest):
        linked.nodes = dict(zip(NAMES, (first, second), strict=False))
        await asyncio.gather(begin(first, digest, 0), begin(second, digest, 1))
        await asyncio.gather(whole(first), whole(second))
        assert (linked.given, sum(get.length for get in store.gets)) == (0, 2 * sum(map(len, SHARDS.values())))
