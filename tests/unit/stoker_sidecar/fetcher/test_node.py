"""What a node does with its datasets while all is well, over stores in memory."""

from pathlib import Path

import pytest

from stoker_api.names import Reason
from stoker_api.nodecache import NodePhase
from stoker_sidecar.errors import (
    AccessDenied,
)
from stoker_sidecar.version.spans import CHUNK
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import DATASET, LARGE, SMALL, Subject, cache_node, fill, inode
from tests.support.waiting import eventually


async def test_warming_brings_every_file_as_it_is(subject: Subject) -> None:
    fill(subject.store, SMALL | {"large": LARGE})
    digest = await subject.warm()
    assert subject.tree(digest) == SMALL | {"large": LARGE}


async def test_a_warm_node_tells_what_it_did(subject: Subject) -> None:
    fill(subject.store, SMALL)
    await subject.warm()
    status = subject.status()
    total = sum(map(len, SMALL.values()))
    assert (status.files, status.warm_files, status.fetched_files) == (4, 4, 4)
    assert (status.bytes, status.warm_bytes, status.error) == (total, total, None)


async def test_files_are_read_only_and_dated_like_their_objects(subject: Subject) -> None:
    fill(subject.store, SMALL)
    digest = await subject.warm()
    found = (subject.folder(digest) / "tree/train/a").stat()
    assert (found.st_mode & 0o777, found.st_mtime_ns) == (0o444, 1_700_000_000_000_000_000)


async def test_a_complete_version_is_marked_and_leaves_no_parts(subject: Subject) -> None:
    fill(subject.store, {"large": LARGE})
    digest = await subject.warm()
    assert (subject.folder(digest) / "complete").exists()
    assert list((subject.folder(digest) / "parts").iterdir()) == []


async def test_listing_alone_fetches_nothing(subject: Subject) -> None:
    fill(subject.store, SMALL)
    digest = await subject.list()
    await subject.configure(listingId="1", version=digest)
    status = await subject.reach(lambda s: s.phase is NodePhase.IDLE)
    assert (status.files, status.warm_files, subject.store.gets) == (4, 0, [])


async def test_a_listing_is_not_made_twice_for_one_id(tmp_path: Path) -> None:
    store = MemoryStore()
    fill(store, SMALL)
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        first = await subject.list("7")
    store.put("new", b"x")
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        assert await subject.list("7") == first
        assert await subject.list("8") != first


async def test_include_and_exclude_choose(subject: Subject) -> None:
    fill(subject.store, SMALL)
    source = DATASET["source"] | {"include": ["train/**"], "exclude": ["**/b"]}
    digest = await subject.warm(source=source)
    assert subject.tree(digest) == {"train/a": b"alpha"}


@pytest.mark.expected_logs("holds no object")
async def test_an_empty_source_is_an_error_of_the_listing(subject: Subject) -> None:
    await subject.configure(listingId="1")
    status = await subject.reach(lambda s: s.listing is not None)
    assert status.listing is not None
    assert status.listing.error is not None
    assert (status.listing.error.reason, status.phase) == (Reason.EMPTY_SOURCE, NodePhase.FAILED)


@pytest.mark.expected_logs("AccessDenied")
async def test_a_listing_goes_on_by_itself_when_the_source_heals(subject: Subject) -> None:
    fill(subject.store, SMALL)
    subject.store.fail(AccessDenied("grant s3:ListBucket"), times=3)
    assert await subject.list()


async def test_a_read_brings_just_its_chunk_and_the_next(subject: Subject) -> None:
    fill(subject.store, {"large": LARGE})
    digest = await subject.list()
    await subject.configure(listingId="1", version=digest)
    ino = inode(subject, digest, "large")
    assert await subject.read(digest, ino, 100, 50) == LARGE[100:150]
    await eventually(lambda: len(subject.store.gets) == 2)
    assert [get.offset for get in subject.store.gets] == [0, CHUNK]


async def test_a_read_across_chunks_is_right(subject: Subject) -> None:
    fill(subject.store, {"large": LARGE})
    digest = await subject.list()
    ino = inode(subject, digest, "large")
    assert await subject.read(digest, ino, CHUNK - 10, CHUNK + 1000) == LARGE[CHUNK - 10 : 2 * CHUNK + 990]


async def test_reading_all_of_a_cold_dataset_makes_it_complete(subject: Subject) -> None:
    fill(subject.store, SMALL)
    digest = await subject.list()
    await subject.configure(listingId="1", version=digest)
    for path, data in SMALL.items():
        assert await subject.read(digest, inode(subject, digest, path), 0, 10_000) == data
    await subject.reach(lambda s: s.phase is NodePhase.WARM)


async def test_readers_of_one_chunk_share_one_download(subject: Subject) -> None:
    fill(subject.store, SMALL)
    digest = await subject.list()
    ino = inode(subject, digest, "train/b")
    await subject.configure(listingId="1", version=digest, eager=True)
    for _ in range(5):
        assert await subject.read(digest, ino, 0, 4000) == SMALL["train/b"]
    await subject.reach(lambda s: s.phase is NodePhase.WARM)
    assert [get.path for get in subject.store.gets].count("train/b") == 1


async def test_a_restart_fetches_no_finished_file_again(tmp_path: Path) -> None:
    store = MemoryStore()
    fill(store, SMALL | {"large": LARGE})
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        digest = await subject.list()
        for path in ("train/a", "train/b"):
            await subject.read(digest, inode(subject, digest, path), 0, 10)
        await subject.read(digest, inode(subject, digest, "large"), CHUNK, 10)
        await eventually(lambda: subject.chunks_here(digest) == 1)  # the reader was answered when its first bytes were
    before = len(store.gets)
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        await subject.warm()
        assert subject.tree(digest) == SMALL | {"large": LARGE}
    again = [(get.path, get.offset) for get in store.gets[before:]]
    assert sorted(again) == [("large", 0), ("large", 2 * CHUNK), ("test/c", 0)]


async def test_a_complete_version_asks_the_source_for_nothing_after_a_restart(tmp_path: Path) -> None:
    store = MemoryStore()
    fill(store, SMALL)
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        await subject.warm()
    before = len(store.gets)
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        await subject.warm()
        assert subject.status().fetched_files == len(SMALL)
    assert len(store.gets) == before


async def test_a_file_that_is_not_as_it_was_written_is_fetched_again(tmp_path: Path) -> None:
    store = MemoryStore()
    fill(store, SMALL)
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        digest = await subject.warm()
    folder = subject.folder(digest)
    (folder / "complete").unlink()
    (folder / "tree/train/a").unlink()
    (folder / "tree/train/a").write_bytes(b"alpha")  # right length, wrong date: not ours
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        await subject.warm()
    assert [get.path for get in store.gets[-1:]] == ["train/a"]


async def test_a_new_version_fetches_only_the_difference(subject: Subject) -> None:
    fill(subject.store, SMALL)
    old = await subject.warm("1")
    subject.store.put("train/a", b"ALPHA", 5)
    subject.store.put("new", b"new", 5)
    before = len(subject.store.gets)
    new = await subject.warm("2", retain=[old])
    assert sorted(get.path for get in subject.store.gets[before:]) == ["new", "train/a"]
    assert subject.status().fetched_files == 2
    assert subject.tree(old) == SMALL
    assert subject.tree(new) == SMALL | {"train/a": b"ALPHA", "new": b"new"}


async def test_unchanged_files_take_no_room_twice(subject: Subject) -> None:
    fill(subject.store, SMALL)
    old = await subject.warm("1")
    subject.store.put("new", b"new", 5)
    await subject.warm("2", retain=[old])
    assert subject.node.progress().used_bytes == sum(map(len, SMALL.values())) + 3


async def test_a_file_of_the_same_content_and_another_date_is_copied_not_fetched(subject: Subject) -> None:
    fill(subject.store, SMALL)
    old = await subject.warm("1")
    subject.store.put("train/a", b"alpha", mtime_ns=77_000)
    before = len(subject.store.gets)
    new = await subject.warm("2", retain=[old])
    assert len(subject.store.gets) == before
    dates = [(subject.folder(version) / "tree/train/a").stat().st_mtime_ns for version in (old, new)]
    assert dates == [1_700_000_000_000_000_000, 77_000]


async def test_a_version_that_no_one_wants_is_deleted(subject: Subject) -> None:
    fill(subject.store, SMALL)
    old = await subject.warm("1")
    subject.store.put("new", b"new")
    await subject.warm("2")
    await eventually(lambda: not subject.folder(old).exists())
    assert subject.status().retained == ()


async def test_a_version_that_is_mounted_here_stays(subject: Subject) -> None:
    fill(subject.store, SMALL)
    old = await subject.warm("1")
    subject.store.put("new", b"new")
    new = await subject.list("2")
    await subject.configure(held=(old,), listingId="2", version=new, eager=True)
    await subject.reach(lambda s: s.phase is NodePhase.WARM and s.version == new)
    assert subject.status().retained == (old,)
    assert subject.tree(old) == SMALL
