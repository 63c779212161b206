"""Groups of nodes that warm one version: each group fetches a part, and links transfer the rest."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stoker_api.node_caches.node_dataset import EVERYTHING
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.peers.peer_client import Having
from stoker_sidecar.wire.fetcher_protocol import FETCHED_BYTES
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
    whole_in_time,
)
from tests.support.waiting import eventually

HALF = EVERYTHING // 2
PAIRS = {path: content + bytes(CHUNK) for path, content in SHARDS.items()}  # more pieces, for even halves


def grouped(at: int, *links: str) -> dict[str, Any]:
    """Return the plan fields of a node in one of two groups."""
    return {"groups": {"links": links, "first": at * HALF, "width": HALF}}


@pytest.mark.parametrize("content", [FILES, PAIRS, ONE], ids=["small files", "shards", "one large file"])
async def test_groups_divide_a_version_and_give_it_to_each_other_by_links(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, content, count=3, standing=True) as ((first, second, third), digest):
        linked.nodes = dict(zip(NAMES, (first, second, third), strict=True))
        begins = [
            begin(first, digest, 0, **grouped(0, "c:1")),
            begin(second, digest, 1, **grouped(0)),
            third.configure(listingId="1", version=digest, eager=True, **grouped(1, "a:1")),
        ]
        await asyncio.gather(*begins)
        await asyncio.gather(*map(whole, (first, second, third)))
        total = sum(map(len, content.values()))
        assert sum(get.length for get in first.store.gets) == total
        assert second.tree(digest) == third.tree(digest) == content
        assert 0.3 * total <= count_of(third, FETCHED_BYTES) <= 0.7 * total


async def test_a_node_fetches_the_part_of_an_absent_group(tmp_path: Path) -> None:
    async with nodes(tmp_path, Alone(Having(b"", 5)), FILES, count=1) as ((node,), digest):
        await node.configure(listingId="1", version=digest, eager=True, **grouped(0, "x:1"))
        await whole_in_time(node)
        assert node.tree(digest) == FILES


async def test_a_node_waits_only_briefly_for_silent_peers(tmp_path: Path) -> None:
    async with nodes(tmp_path, Alone(None), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0, **grouped(0, "x:1"))
        await eventually(lambda: 0 < node.status().warm_files < len(FILES), 30.0)
        node.clock.ahead += 11.0
        await whole(node)
        assert node.tree(digest) == FILES
