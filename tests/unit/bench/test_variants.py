"""The variants of the product's processes differ from it in just the mechanism that they do without."""

import asyncio
import os
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.variants.fetcher import DRIVE_OUT_OLDEST, EACH_FOR_ITSELF, POLICIES, main
from tests.support.cache_node import CacheNodeUnderTest, fill, inode, open_cache_node


async def listed(node: CacheNodeUnderTest, files: int) -> str:
    """List a dataset of files of 100 bytes; return its digest."""
    fill(node.store, {f"f{number}": os.urandom(100) for number in range(files)})
    digest = await node.list()
    await node.configure(listingId="1", version=digest, quotaBytes=250)
    return digest


async def test_each_asker_downloads_for_itself(tmp_path: Path) -> None:
    async with open_cache_node(tmp_path, policy=POLICIES[EACH_FOR_ITSELF]) as node:
        digest = await listed(node, 1)
        ino = inode(node, digest, "f0")
        await asyncio.gather(*(node.read(digest, ino, 0, 100) for _ in range(2)))
        assert [get.path for get in node.store.gets] == ["f0"] * 2


async def test_the_file_that_came_first_makes_room(tmp_path: Path) -> None:
    async with open_cache_node(tmp_path, policy=POLICIES[DRIVE_OUT_OLDEST]) as node:
        digest = await listed(node, 3)
        for name in ("f0", "f1", "f2"):
            await node.read(digest, inode(node, digest, name), 0, 100)
        assert set(node.tree(digest)) == {"f1", "f2"}


def test_a_policy_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="name one of each-for-itself, drive-out-oldest first"):
        main(["none"])
