"""Nodes share selected paths of a version like a whole version."""

import asyncio
from pathlib import Path

import pytest

from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.fetcher.peers.node_division import PATIENCE
from stoker_sidecar.fetcher.peers.peer_client import Having
from stoker_sidecar.wire.fetcher_protocol import FETCHED_BYTES
from tests.support.cache_node import inode
from tests.support.divided_nodes import (
    FILES,
    NAMES,
    SHARDS,
    Alone,
    Linked,
    begin,
    count_of,
    nodes,
    paths_whole,
)
from tests.support.waiting import eventually

PART = ("shard-1", "train/1*", "train/00*")
OF_PART = {path: data for path, data in (FILES | SHARDS).items() if path.startswith(("shard-1", "train/1", "train/00"))}


@pytest.mark.parametrize("count", [2, 3])
async def test_each_byte_of_the_chosen_paths_comes_once_from_the_source(tmp_path: Path, count: int) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, FILES | SHARDS, count, standing=True) as (found, digest):
        linked.nodes = dict(zip(NAMES, found, strict=False))
        await asyncio.gather(*(begin(node, digest, at, count, warmPaths=PART) for at, node in enumerate(found)))
        await asyncio.gather(*map(paths_whole, found))
        total = sum(map(len, OF_PART.values()))
        assert sum(get.length for get in found[0].store.gets) == total
        assert all(node.tree(digest) == OF_PART for node in found)
        parts = [node.status().warm_paths for node in found]
        assert [part and (part.files, part.warm_bytes) for part in parts] == [(len(OF_PART), total)] * count
        assert min(count_of(node, FETCHED_BYTES) for node in found) >= 2 * 16 * 50_000, "two groups at the least"


async def test_listed_files_come_once_and_the_list_to_each_node(tmp_path: Path) -> None:
    linked, lines = Linked(), b"shard-1\ntrain/1*\ntrain/00*"
    async with nodes(tmp_path, linked, FILES | SHARDS | {"list": lines}, standing=True) as (found, digest):
        linked.nodes = dict(zip(NAMES, found, strict=False))
        await asyncio.gather(*(begin(node, digest, at, warmPaths=["/list"]) for at, node in enumerate(found)))
        await asyncio.gather(*map(paths_whole, found))
        total = sum(map(len, OF_PART.values())) + 2 * len(lines)
        assert sum(get.length for get in found[0].store.gets) == total
        assert all(node.tree(digest) == OF_PART | {"list": lines} for node in found)


async def test_a_file_outside_the_chosen_paths_is_fetched_when_it_is_read(tmp_path: Path) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, FILES) as ((first, second), digest):
        linked.nodes = dict(zip(NAMES, (first, second), strict=False))
        some = ["train/00*"]
        await asyncio.gather(begin(first, digest, 0, warmPaths=some), begin(second, digest, 1, warmPaths=some))
        await asyncio.gather(paths_whole(first), paths_whole(second))
        assert await first.read(digest, inode(first, digest, "train/150"), 0, 50_000) == FILES["train/150"]
        assert len(first.store.gets) == 11


async def test_a_share_of_a_chosen_part_comes_in_the_order_of_its_paths(tmp_path: Path) -> None:
    async with nodes(tmp_path, Alone(None), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0, warmPaths=["train/1*", "train/00*"])
        await eventually(lambda: node.status().warm_files >= 62)
        assert [get.path[:7] for get in node.store.gets[:62]] == ["train/1"] * 52 + ["train/0"] * 10


async def test_a_node_does_not_wait_for_a_peer_with_other_paths(tmp_path: Path) -> None:
    class Elsewhere(Alone):
        async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
            self.given += 1
            return Having(b"", self.given, choice="of another list")

    async with nodes(tmp_path, Elsewhere(None), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0, warmPaths=["train/1*"])
        await eventually(lambda: node.status().warm_files >= 52)
        node.clock.ahead += PATIENCE + 1
        await eventually(lambda: node.status().phase is NodePhase.PATHS_WARM, 10.0)  # 19 s before waits for peers end
