"""The scrub reads each mounted version next to the current one, at a single pace."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker_api.names import Reason
from stoker_sidecar.errors import CacheDiskFailed
from stoker_sidecar.fetcher.datasets.dataset import DatasetCache
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.sources.core.bandwidth import TokenBucket
from stoker_sidecar.wire.fetcher_protocol import SCRUBBED_BYTES
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import SMALL, UID, CacheNodeUnderTest, fill, flip_a_bit, open_cache_node
from tests.support.waiting import eventually

CHANGED = "test/c"
NEW = b"another"
SIZE = sum(map(len, SMALL.values()))
NEW_SIZE = SIZE - len(SMALL[CHANGED]) + len(NEW)


@pytest.fixture
async def cache_node(tmp_path: Path) -> AsyncIterator[CacheNodeUnderTest]:
    """Open a node that scrubs at every check, on a bucket with versions."""
    async with open_cache_node(tmp_path, {"bucket": MemoryStore(versions={})}, scrub_interval=1e-6) as made:
        fill(made.store, SMALL)
        yield made


async def two_versions(cache_node: CacheNodeUnderTest, *, mounted: bool = True) -> tuple[str, str]:
    """Keep the previous version on the disk, mounted or not. Return both digests."""
    before = await cache_node.warm()
    cache_node.store.put(CHANGED, NEW, mtime_ns=1_800_000_000_000_000_000)
    return before, await cache_node.warm("2", retain=[before], held=(before,) if mounted else ())


def dataset_of(cache_node: CacheNodeUnderTest) -> DatasetCache:
    return cache_node.node._datasets[UID]


def read(cache_node: CacheNodeUnderTest) -> int:
    return sum(row.value for row in cache_node.node.progress().counts if row.name == SCRUBBED_BYTES)


async def scrub(cache_node: CacheNodeUnderTest) -> None:
    """Scrub one version if one is due."""
    await cache_node.node.look_after()
    task = cache_node.node._scrubber._task
    if task is not None:
        await task


def scrubbed(cache_node: CacheNodeUnderTest, *digests: str) -> list[bool]:
    return [(cache_node.folder(digest) / "scrubbed").exists() for digest in digests]


async def test_a_version_that_is_mounted_is_read_beside_the_current_one(cache_node: CacheNodeUnderTest) -> None:
    versions = await two_versions(cache_node)
    for _ in versions:
        await scrub(cache_node)
    assert (read(cache_node), scrubbed(cache_node, *versions)) == (SIZE + NEW_SIZE, [True, True])


async def test_a_version_that_nobody_has_mounted_is_not_read(cache_node: CacheNodeUnderTest) -> None:
    versions = await two_versions(cache_node, mounted=False)
    for _ in range(3):
        await scrub(cache_node)
    assert (read(cache_node), scrubbed(cache_node, *versions)) == (3 * NEW_SIZE, [False, True])


async def test_the_one_that_was_read_longest_ago_comes_first(cache_node: CacheNodeUnderTest) -> None:
    await two_versions(cache_node)
    sizes = []
    for _ in range(4):
        before = read(cache_node)
        await scrub(cache_node)
        sizes.append(read(cache_node) - before)
    assert sizes == [SIZE, NEW_SIZE, SIZE, NEW_SIZE]


@pytest.mark.expected_logs("damaged on the disk")
async def test_damage_in_an_older_version_is_repaired_and_said(cache_node: CacheNodeUnderTest) -> None:
    before, current = await two_versions(cache_node)
    flip_a_bit(cache_node.folder(before) / "tree" / CHANGED)
    for _ in range(2):
        await scrub(cache_node)
    assert cache_node.tree(before) == SMALL
    assert cache_node.tree(current) == SMALL | {CHANGED: NEW}
    (notice,) = cache_node.node.progress().notices
    assert notice.reason == Reason.REPAIRED
    assert f"digits (version {before[:12]}) were damaged" in notice.message


@pytest.mark.expected_logs("damaged on the disk")
async def test_damage_in_an_older_version_that_the_source_has_no_more_is_taken_away(
    cache_node: CacheNodeUnderTest,
) -> None:
    before, current = await two_versions(cache_node)
    flip_a_bit(cache_node.folder(before) / "tree" / CHANGED)
    assert cache_node.store.versions is not None
    cache_node.store.versions = {key: one for key, one in cache_node.store.versions.items() if one == NEW}
    for _ in range(2):
        await scrub(cache_node)
    assert cache_node.tree(before) == {path: data for path, data in SMALL.items() if path != CHANGED}
    assert cache_node.tree(current) == SMALL | {CHANGED: NEW}


async def test_a_version_that_is_mounted_and_not_open_is_opened_for_it(tmp_path: Path) -> None:
    async with open_cache_node(tmp_path) as made:
        fill(made.store, SMALL)
        before, current = await two_versions(made)
    async with open_cache_node(tmp_path, {"bucket": made.store}, scrub_interval=1e-6) as again:
        await again.configure(listingId="2", version=current, eager=True, held=(before,))
        await eventually(lambda: again.is_open(current))
        for _ in range(2):
            await scrub(again)
        assert scrubbed(again, before, current) == [True, True]


async def test_a_pass_ends_when_its_version_is_unmounted(
    cache_node: CacheNodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, _ = await two_versions(cache_node)

    async def unmount() -> None:
        dataset_of(cache_node).budget.held = frozenset()

    monkeypatch.setattr(cache_node.node._scrubber, "idle", unmount)
    await scrub(cache_node)
    assert 0 < read(cache_node) < SIZE
    assert scrubbed(cache_node, before) == [False]


@pytest.mark.expected_logs("ended early")
async def test_one_whose_pass_an_error_ends_lets_the_others_go_first(
    cache_node: CacheNodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, current = await two_versions(cache_node)
    opened = DatasetCache.opened

    async def fails(self: DatasetCache, digest: str) -> Fetching:
        if digest == before:
            raise CacheDiskFailed("it does not open")
        return await opened(self, digest)

    with monkeypatch.context() as patch:
        patch.setattr(DatasetCache, "opened", fails)
        for _ in range(3):
            await scrub(cache_node)
        assert (read(cache_node), scrubbed(cache_node, before, current)) == (2 * NEW_SIZE, [False, True])
    cache_node.clock.ahead += 3600.0
    await scrub(cache_node)
    assert scrubbed(cache_node, before) == [True]


async def test_versions_one_after_the_other_are_read_at_the_one_pace(
    cache_node: CacheNodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await two_versions(cache_node)
    scrubber, naps, now = cache_node.node._scrubber, list[float](), cache_node.clock()

    async def nap(seconds: float) -> None:
        naps.append(seconds)

    monkeypatch.setattr(scrubber, "sleep", nap)
    monkeypatch.setattr(scrubber, "clock", lambda: now)
    monkeypatch.setattr(scrubber, "_bucket", TokenBucket(1000, now))
    for _ in range(2):
        await scrub(cache_node)
    # The last request waits for all earlier ones.
    assert max(naps) * 1000 >= SIZE + NEW_SIZE - max(map(len, SMALL.values()))
