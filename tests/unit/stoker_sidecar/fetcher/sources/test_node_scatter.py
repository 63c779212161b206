"""Prefetching for pods that read small files in random order."""

import os
from collections import Counter
from random import Random
from typing import Any

from tests.support.cache_node import CacheNodeUnderTest, fill, inode
from tests.support.waiting import eventually

_FOLDERS, _FILES, _SIZE = 4, 25, 100
_CONTENT = {f"{folder}/{file:03}": os.urandom(_SIZE) for folder in range(_FOLDERS) for file in range(_FILES)}


def _at_random(count: int, folders: int = _FOLDERS) -> list[str]:
    wanted = [path for path in _CONTENT if int(path[0]) < folders]
    return Random(7).sample(wanted, count)


async def _cold(cache_node: CacheNodeUnderTest, **changes: Any) -> str:
    fill(cache_node.store, _CONTENT)
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, **changes)
    return digest


async def _read(cache_node: CacheNodeUnderTest, digest: str, paths: list[str]) -> int:
    """Read the files. Return the number of files that were missing at their read."""
    misses = 0
    for path in paths:
        misses += not (cache_node.folder(digest) / "tree" / path).exists()
        assert await cache_node.read(digest, inode(cache_node, digest, path), 0, _SIZE) == _CONTENT[path]
        await eventually(lambda: len(cache_node.store.gets) == _landed(cache_node))
    return misses


def _landed(cache_node: CacheNodeUnderTest) -> int:
    return cache_node.status().warm_files


async def test_an_epoch_in_random_order_finds_most_files_here_and_fetches_each_once(
    cache_node: CacheNodeUnderTest,
) -> None:
    digest = await _cold(cache_node)
    misses = await _read(cache_node, digest, _at_random(len(_CONTENT)))
    assert misses < len(_CONTENT) / 2
    assert set(Counter(get.path for get in cache_node.store.gets).values()) == {1}


async def test_a_pod_that_reads_a_few_files_has_no_more_fetched_for_it_than_it_read(
    cache_node: CacheNodeUnderTest,
) -> None:
    digest = await _cold(cache_node)
    await _read(cache_node, digest, _at_random(10))
    assert len(cache_node.store.gets) <= 20


async def test_folders_that_no_one_reads_are_left_alone(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node)
    await _read(cache_node, digest, _at_random(_FILES, folders=2))
    assert {get.path[0] for get in cache_node.store.gets} == {"0", "1"}


async def test_a_quota_holds_for_what_is_fetched_ahead(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node, quotaBytes=30 * _SIZE)
    for path in _at_random(len(_CONTENT)):
        await cache_node.read(digest, inode(cache_node, digest, path), 0, _SIZE)
    assert cache_node.status().warm_files == 30
