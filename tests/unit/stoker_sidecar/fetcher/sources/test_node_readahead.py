"""Prefetching for pods that read files in order."""

from collections import Counter

from tests.support.cache_node import CacheNodeUnderTest, fill, inode
from tests.support.waiting import eventually

FILES = {f"{folder}/{number:02}": b"y" * 100 for folder in "abc" for number in range(30)}


async def _cold(cache_node: CacheNodeUnderTest) -> str:
    fill(cache_node.store, FILES)
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest)
    return digest


async def _read(cache_node: CacheNodeUnderTest, digest: str, *paths: str) -> list[str]:
    """Read a byte of each file, as through an overlay: files that are here leave no trace. Return the misses."""
    return [path for path in paths if await _misses(cache_node, digest, path)]


async def _misses(cache_node: CacheNodeUnderTest, digest: str, path: str) -> bool:
    if (cache_node.folder(digest) / "tree" / path).exists():
        return False
    await cache_node.read(digest, inode(cache_node, digest, path), 0, 1)
    await eventually(lambda: cache_node.status().warm_files == len(cache_node.store.gets))
    return True


def _fetched(cache_node: CacheNodeUnderTest) -> Counter[str]:
    return Counter(get.path.partition("/")[0] for get in cache_node.store.gets)


async def test_a_reader_in_order_finds_the_first_files_of_the_next_folder(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node)
    await _read(cache_node, digest, *list(FILES)[:30])
    assert _fetched(cache_node) == {"a": 30, "b": 4}


async def test_nothing_is_fetched_behind_a_folder_of_which_two_files_were_read(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node)
    await _read(cache_node, digest, "a/28", "a/29")
    assert _fetched(cache_node) == {"a": 2}


async def test_an_epoch_in_order_waits_for_few_files_and_fetches_each_once(cache_node: CacheNodeUnderTest) -> None:
    digest = await _cold(cache_node)
    missed = await _read(cache_node, digest, *FILES)
    assert len(missed) <= 8
    assert Counter(get.path for get in cache_node.store.gets) == dict.fromkeys(FILES, 1)
