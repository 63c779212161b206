"""The normal operation of a node with its Datasets, over stores in memory."""

from pathlib import Path

import pytest

from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.errors import (
    AccessDenied,
)
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import DATASET, LARGE, SMALL, CacheNodeUnderTest, fill, inode, open_cache_node
from tests.support.waiting import eventually


async def test_warming_brings_every_file_as_it_is(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL | {"large": LARGE})
    digest = await cache_node.warm()
    assert cache_node.tree(digest) == SMALL | {"large": LARGE}


async def test_a_warm_node_tells_what_it_did(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    await cache_node.warm()
    status = cache_node.status()
    total = sum(map(len, SMALL.values()))
    assert (status.files, status.warm_files, status.fetched_files) == (4, 4, 4)
    assert (status.bytes, status.warm_bytes, status.error) == (total, total, None)


async def test_files_are_read_only_and_dated_like_their_objects(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    digest = await cache_node.warm()
    found = (cache_node.folder(digest) / "tree/train/a").stat()
    assert (found.st_mode & 0o777, found.st_mtime_ns) == (0o444, 1_700_000_000_000_000_000)


async def test_a_complete_version_is_marked_and_leaves_no_parts(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, {"large": LARGE})
    digest = await cache_node.warm()
    assert (cache_node.folder(digest) / "complete").exists()
    assert list((cache_node.folder(digest) / "parts").iterdir()) == []


async def test_listing_alone_fetches_nothing(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest)
    status = await cache_node.reach(lambda s: s.phase is NodePhase.IDLE)
    assert (status.files, status.warm_files, cache_node.store.gets) == (4, 0, [])


async def test_a_listing_is_not_made_twice_for_one_id(tmp_path: Path) -> None:
    store = MemoryStore()
    fill(store, SMALL)
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        first = await cache_node.list("7")
    store.put("new", b"x")
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        assert await cache_node.list("7") == first
        assert await cache_node.list("8") != first


async def test_include_and_exclude_choose(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    source = DATASET["source"] | {"include": ["train/**"], "exclude": ["**/b"]}
    digest = await cache_node.warm(source=source)
    assert cache_node.tree(digest) == {"train/a": b"alpha"}


@pytest.mark.expected_logs("holds no object")
async def test_an_empty_source_is_an_error_of_the_listing(cache_node: CacheNodeUnderTest) -> None:
    await cache_node.configure(listingId="1")
    status = await cache_node.reach(lambda s: s.listing is not None)
    assert status.listing is not None
    assert status.listing.error is not None
    assert (status.listing.error.reason, status.phase) == (Reason.EMPTY_SOURCE, NodePhase.FAILED)


@pytest.mark.expected_logs("AccessDenied")
async def test_a_listing_goes_on_by_itself_when_the_source_heals(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    cache_node.store.fail(AccessDenied("grant s3:ListBucket"), times=3)
    assert await cache_node.list()


async def test_a_read_brings_just_its_chunk_and_the_next(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, {"large": LARGE})
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest)
    ino = inode(cache_node, digest, "large")
    assert await cache_node.read(digest, ino, 100, 50) == LARGE[100:150]
    await eventually(lambda: len(cache_node.store.gets) == 2)
    assert [get.offset for get in cache_node.store.gets] == [0, CHUNK]


async def test_a_read_across_chunks_is_right(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, {"large": LARGE})
    digest = await cache_node.list()
    ino = inode(cache_node, digest, "large")
    assert await cache_node.read(digest, ino, CHUNK - 10, CHUNK + 1000) == LARGE[CHUNK - 10 : 2 * CHUNK + 990]


async def test_reading_all_of_a_cold_dataset_makes_it_complete(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest)
    for path, data in SMALL.items():
        assert await cache_node.read(digest, inode(cache_node, digest, path), 0, 10_000) == data
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM)


async def test_readers_of_one_chunk_share_one_download(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    digest = await cache_node.list()
    ino = inode(cache_node, digest, "train/b")
    await cache_node.configure(listingId="1", version=digest, eager=True)
    for _ in range(5):
        assert await cache_node.read(digest, ino, 0, 4000) == SMALL["train/b"]
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
    assert [get.path for get in cache_node.store.gets].count("train/b") == 1


async def test_a_restart_fetches_no_finished_file_again(tmp_path: Path) -> None:
    store = MemoryStore()
    fill(store, SMALL | {"large": LARGE})
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        digest = await cache_node.list()
        for path in ("train/a", "train/b"):
            await cache_node.read(digest, inode(cache_node, digest, path), 0, 10)
        await cache_node.read(digest, inode(cache_node, digest, "large"), CHUNK, 10)
        # The reader got its answer when the first bytes arrived.
        await eventually(lambda: cache_node.chunks_here(digest) == 1)
    before = len(store.gets)
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        await cache_node.warm()
        assert cache_node.tree(digest) == SMALL | {"large": LARGE}
    again = [(get.path, get.offset) for get in store.gets[before:]]
    assert sorted(again) == [("large", 0), ("large", 2 * CHUNK), ("test/c", 0)]


async def test_a_complete_version_asks_the_source_for_nothing_after_a_restart(tmp_path: Path) -> None:
    store = MemoryStore()
    fill(store, SMALL)
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        await cache_node.warm()
    before = len(store.gets)
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        await cache_node.warm()
        assert cache_node.status().fetched_files == len(SMALL)
    assert len(store.gets) == before


async def test_a_file_that_is_not_as_it_was_written_is_fetched_again(tmp_path: Path) -> None:
    store = MemoryStore()
    fill(store, SMALL)
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        digest = await cache_node.warm()
    folder = cache_node.folder(digest)
    (folder / "complete").unlink()
    (folder / "tree/train/a").unlink()
    (folder / "tree/train/a").write_bytes(b"alpha")  # right length but wrong date: not a file of the cache
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        await cache_node.warm()
    assert [get.path for get in store.gets[-1:]] == ["train/a"]


async def test_a_new_version_fetches_only_the_difference(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    old = await cache_node.warm("1")
    cache_node.store.put("train/a", b"ALPHA", 5)
    cache_node.store.put("new", b"new", 5)
    before = len(cache_node.store.gets)
    new = await cache_node.warm("2", retain=[old])
    assert sorted(get.path for get in cache_node.store.gets[before:]) == ["new", "train/a"]
    assert cache_node.status().fetched_files == 2
    assert cache_node.tree(old) == SMALL
    assert cache_node.tree(new) == SMALL | {"train/a": b"ALPHA", "new": b"new"}


async def test_unchanged_files_take_no_room_twice(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    old = await cache_node.warm("1")
    cache_node.store.put("new", b"new", 5)
    await cache_node.warm("2", retain=[old])
    assert cache_node.node.progress().used_bytes == sum(map(len, SMALL.values())) + 3


async def test_a_file_of_the_same_content_and_another_date_is_copied_not_fetched(
    cache_node: CacheNodeUnderTest,
) -> None:
    fill(cache_node.store, SMALL)
    old = await cache_node.warm("1")
    cache_node.store.put("train/a", b"alpha", mtime_ns=77_000)
    before = len(cache_node.store.gets)
    new = await cache_node.warm("2", retain=[old])
    assert len(cache_node.store.gets) == before
    dates = [(cache_node.folder(version) / "tree/train/a").stat().st_mtime_ns for version in (old, new)]
    assert dates == [1_700_000_000_000_000_000, 77_000]


async def test_a_version_that_no_one_wants_is_deleted(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    old = await cache_node.warm("1")
    cache_node.store.put("new", b"new")
    await cache_node.warm("2")
    await eventually(lambda: not cache_node.folder(old).exists())
    assert cache_node.status().retained == ()


async def test_a_version_that_is_mounted_here_stays(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    old = await cache_node.warm("1")
    cache_node.store.put("new", b"new")
    new = await cache_node.list("2")
    await cache_node.configure(held=(old,), listingId="2", version=new, eager=True)
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM and s.version == new)
    assert cache_node.status().retained == (old,)
    assert cache_node.tree(old) == SMALL


async def test_a_version_that_is_kept_for_others_is_told_of_after_a_restart(tmp_path: Path) -> None:
    store = MemoryStore()
    fill(store, SMALL)
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        old = await cache_node.warm("1")
        store.put("new", b"new")
        new = await cache_node.warm("2", retain=(old,))
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        await cache_node.configure(listingId="2", version=new, retain=(old,), eager=True)
        status = await cache_node.reach(lambda s: s.phase is NodePhase.WARM and bool(s.older))
        assert (status.retained, cache_node.tree(old)) == ((old,), SMALL)
        # Pods with this version go to complete nodes, before this node gets a request to fetch it.
        assert [(one.version, one.phase, one.warm_bytes) for one in status.older] == [(old, NodePhase.WARM, 4010)]


async def two_versions(cache_node: CacheNodeUnderTest) -> tuple[str, str]:
    """List twice. The second listing has a change that the source reverts. Nothing is fetched."""
    fill(cache_node.store, SMALL)
    old = await cache_node.list("1")
    cache_node.store.put("train/a", b"ALPHA", 5)
    new = await cache_node.list("2", older=[{"version": old}])
    return old, new


async def test_an_older_version_that_pods_will_mount_is_fetched_beside_the_current_one(
    cache_node: CacheNodeUnderTest,
) -> None:
    cache_node.store.versions = {}
    old, new = await two_versions(cache_node)
    await cache_node.configure(listingId="2", version=new, eager=True, older=[{"version": old}])
    status = await cache_node.reach(lambda s: s.phase is NodePhase.WARM and s.version == new)
    assert [(one.version, one.phase, one.warm_bytes) for one in status.older] == [(old, NodePhase.WARM, 4010)]
    assert (cache_node.tree(old), cache_node.tree(new)) == (SMALL, SMALL | {"train/a": b"ALPHA"})


async def test_of_a_version_that_is_only_kept_nothing_is_fetched_and_it_does_not_look_so(
    cache_node: CacheNodeUnderTest,
) -> None:
    fill(cache_node.store, SMALL)
    old = await cache_node.list("1")
    await cache_node.configure(listingId="1", version=old)
    cache_node.store.put("train/a", b"ALPHA", 5)
    new = await cache_node.list("2", version=old)
    await cache_node.configure(listingId="2", version=new, eager=True, retain=(old,))
    status = await cache_node.reach(lambda s: s.phase is NodePhase.WARM and s.version == new)
    assert [(one.version, one.phase) for one in status.older] == [(old, NodePhase.IDLE)]


@pytest.mark.expected_logs("has changed since it was listed|no longer")
async def test_an_older_version_that_cannot_be_fetched_holds_up_no_other(cache_node: CacheNodeUnderTest) -> None:
    old, new = await two_versions(cache_node)
    unknown = "f" * 64
    older = [{"version": old}, {"version": unknown}]
    await cache_node.configure(listingId="2", version=new, eager=True, older=older)
    status = await cache_node.reach(lambda s: s.phase is NodePhase.WARM and s.version == new)
    told = {one.version: one.error and one.error.reason for one in status.older}
    assert told == {old: Reason.SOURCE_CHANGED, unknown: Reason.MANIFEST_UNAVAILABLE}
    assert status.error is None
    await cache_node.configure(listingId="2", version=new, eager=True, retain=(old,))  # no pod waits for it
    kept = await cache_node.reach(lambda s: [one.version for one in s.older] == [old])
    assert (kept.older[0].phase, kept.older[0].error) == (NodePhase.IDLE, None)
