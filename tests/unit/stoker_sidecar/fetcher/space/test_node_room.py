"""Files that a node keeps, evicts and rejects: quotas, pauses, removal, and unknown Datasets."""

import os
from functools import partial
from pathlib import Path

import pytest

from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_sidecar.errors import (
    InUse,
    NotConfigured,
    NotYetConfigured,
    ProtocolError,
)
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.wire.config.disk_floor import DiskFloor, Floor
from stoker_sidecar.wire.fetcher_protocol import Read
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import LARGE, SMALL, UID, CacheNodeUnderTest, fill, inode, open_cache_node
from tests.support.waiting import eventually


async def test_a_quota_keeps_what_fits_and_the_rest_is_read_through(cache_node: CacheNodeUnderTest) -> None:
    content = {f"f{index}": os.urandom(100) for index in range(10)}
    fill(cache_node.store, content)
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=True, quotaBytes=450)
    status = await cache_node.reach(lambda s: s.phase is NodePhase.FULL)
    assert (status.warm_files, status.warm_bytes) == (4, 400)
    assert status.error is not None
    assert status.error.reason == Reason.QUOTA_EXCEEDED
    for path, data in content.items():
        assert await cache_node.read(digest, inode(cache_node, digest, path), 0, 100) == data
    assert cache_node.status().warm_files == 4


async def test_files_beyond_the_quota_do_not_drive_out_what_is_kept(cache_node: CacheNodeUnderTest) -> None:
    content = {f"f{index}": os.urandom(100) for index in range(10)}
    fill(cache_node.store, content)
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=True, quotaBytes=450)
    await cache_node.reach(lambda s: s.phase is NodePhase.FULL)
    kept = cache_node.tree(digest)
    for path in content:
        await cache_node.read(digest, inode(cache_node, digest, path), 0, 100)
    assert cache_node.tree(digest) == kept


async def test_a_quota_smaller_than_any_file_says_so_and_serves_all(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, {"a": b"alpha", "b": b"beta"})
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=True, quotaBytes=3)
    status = await cache_node.reach(lambda s: s.phase is NodePhase.FULL)
    assert status.error is not None
    assert status.error.reason == Reason.QUOTA_TOO_SMALL
    assert await cache_node.read(digest, inode(cache_node, digest, "a"), 0, 5) == b"alpha"


async def test_a_quota_of_nothing_serves_all_and_keeps_nothing(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, {"a": b"alpha", "b": b"beta"})
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, quotaBytes=0)
    assert await cache_node.read(digest, inode(cache_node, digest, "a"), 0, 5) == b"alpha"
    assert (cache_node.tree(digest), cache_node.status().warm_bytes) == ({}, 0)


async def test_a_quota_that_is_taken_away_leaves_what_is_there(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, {"a": b"alpha", "b": b"beta"})
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=True)
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
    await cache_node.configure(listingId="1", version=digest, eager=False, quotaBytes=0)
    assert await cache_node.read(digest, inode(cache_node, digest, "b"), 0, 4) == b"beta"
    assert cache_node.tree(digest) == {"a": b"alpha", "b": b"beta"}


async def test_a_raised_quota_is_used(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, {"a": b"alpha", "b": b"beta"})
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=True, quotaBytes=5)
    await cache_node.reach(lambda s: s.phase is NodePhase.FULL)
    await cache_node.configure(listingId="1", version=digest, eager=True, quotaBytes=100)
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM)


@pytest.mark.parametrize("size", [5, CHUNK + 5])
async def test_what_was_only_read_through_is_kept_once_a_raised_quota_has_room(
    cache_node: CacheNodeUnderTest, size: int
) -> None:
    content = os.urandom(size)
    fill(cache_node.store, {"a": content})
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=False, quotaBytes=3)
    assert await cache_node.read(digest, inode(cache_node, digest, "a"), 0, size) == content
    await cache_node.configure(listingId="1", version=digest, eager=True)
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
    assert cache_node.tree(digest) == {"a": content}


async def test_what_is_read_through_is_dropped_again(tmp_path: Path) -> None:
    store = MemoryStore()
    content = {f"f{index}": os.urandom(1000) for index in range(20)}
    fill(store, content)
    async with open_cache_node(tmp_path, {"bucket": store}, transient=3000) as cache_node:
        digest = await cache_node.list()
        await cache_node.configure(listingId="1", version=digest, quotaBytes=10)
        for path, data in content.items():
            assert await cache_node.read(digest, inode(cache_node, digest, path), 0, 1000) == data
        parts = [path.stat().st_size for path in (cache_node.folder(digest) / "parts").iterdir()]
    assert sum(parts) <= 3000


async def test_a_paused_dataset_still_serves_reads(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=True, paused=True)
    await cache_node.reach(lambda s: s.phase is NodePhase.IDLE and s.files > 0)
    assert await cache_node.read(digest, inode(cache_node, digest, "train/a"), 0, 5) == b"alpha"
    assert [get.path for get in cache_node.store.gets] == ["train/a"]


async def test_removing_takes_all_off_the_disk(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    await cache_node.warm()
    await cache_node.node.remove(UID)
    assert list((cache_node.root / "datasets").iterdir()) == []
    await eventually(lambda: list((cache_node.root / "trash").iterdir()) == [])
    assert cache_node.node.progress().datasets == ()


async def test_a_mounted_dataset_is_not_removed(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    digest = await cache_node.warm()
    await cache_node.configure(held=(digest,), listingId="1", version=digest, eager=True)
    with pytest.raises(InUse, match="vision/digits"):
        await cache_node.node.remove(UID)
    assert cache_node.tree(digest) == SMALL


async def test_a_folder_that_no_one_configured_is_told_and_can_be_removed(tmp_path: Path) -> None:
    version = tmp_path / "datasets" / "uid-old" / "versions" / "d1"
    version.mkdir(parents=True)
    (version / "manifest.sqlite").touch()
    async with open_cache_node(tmp_path) as cache_node:
        assert cache_node.node.progress().orphans == {"uid-old": ("d1",)}
        await cache_node.node.remove("uid-old")
        assert cache_node.node.progress().orphans == {}


async def test_a_dataset_that_was_not_told_yet_asks_to_come_again(cache_node: CacheNodeUnderTest) -> None:
    with pytest.raises(NotYetConfigured):
        await cache_node.node.read(Read("uid-9", "d", 2, 0, 1))


@pytest.mark.parametrize("digest", ["0" * 64, "../../etc"])
async def test_a_version_that_is_not_here_is_refused(cache_node: CacheNodeUnderTest, digest: str) -> None:
    await cache_node.configure()
    with pytest.raises(NotConfigured):
        await cache_node.node.read(Read(UID, digest, 2, 0, 1))


async def test_a_folder_cannot_be_read_as_a_file(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    digest = await cache_node.list()
    with pytest.raises(NotConfigured, match="not a file"):
        await cache_node.node.read(Read(UID, digest, inode(cache_node, digest, "train"), 0, 1))


async def test_the_root_stands_for_where_the_version_lies(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    digest = await cache_node.list()
    answer = await cache_node.node.read(Read(UID, digest, 1, 0, 0))
    assert Path(answer.file) == cache_node.folder(digest) / "tree"


async def test_a_uid_that_is_no_folder_name_is_refused(cache_node: CacheNodeUnderTest) -> None:
    with pytest.raises(NotConfigured):
        await cache_node.configure(uid="../evil")


async def test_a_dataset_that_does_not_parse_is_refused(cache_node: CacheNodeUnderTest) -> None:
    with pytest.raises(ProtocolError):
        await cache_node.configure(source=None)


async def test_parts_of_another_boot_are_not_trusted(tmp_path: Path) -> None:
    store = MemoryStore()
    fill(store, {"large": LARGE})
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        digest = await cache_node.list()
        await cache_node.read(digest, inode(cache_node, digest, "large"), CHUNK, 10)
    (tmp_path / "boot").write_text("another boot")
    before = len(store.gets)
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        await cache_node.warm()
    assert len(store.gets) - before == 3


async def test_a_disk_without_inodes_above_the_floor_says_so_and_serves_all(tmp_path: Path) -> None:
    store = MemoryStore()
    content = {f"f{index}": os.urandom(100) for index in range(10)}
    fill(store, content)
    floor = DiskFloor(Floor(), Floor(amount=5))
    async with open_cache_node(tmp_path, {"bucket": store}, capacity=10**6, inodes=5, floor=floor) as cache_node:
        digest = await cache_node.list()
        await cache_node.configure(listingId="1", version=digest, eager=True)
        status = await cache_node.reach(lambda s: s.phase is NodePhase.FULL)
        assert status.error is not None
        assert status.error.reason == Reason.DISK_FULL
        assert "the cache disk has inodes for 0 of 10 files" in status.error.message
        assert await cache_node.read(digest, inode(cache_node, digest, "f3"), 0, 100) == content["f3"]


def is_in(phase: NodePhase, status: NodeDatasetStatus) -> bool:
    return status.phase is phase


async def test_a_version_with_more_folders_than_half_of_the_inodes_has_those_of_its_files(tmp_path: Path) -> None:
    content = {f"{index}/a/f": os.urandom(100) for index in range(20)}
    stores = {"bucket": MemoryStore()}
    fill(stores["bucket"], content)
    async with open_cache_node(tmp_path, stores, capacity=10**6, inodes=75) as cache_node:
        digest = await cache_node.list()
        for quota, phase, files in ((450, NodePhase.FULL, 4), (10**6, NodePhase.WARM, 20)):
            await cache_node.configure(listingId="1", version=digest, eager=True, quotaBytes=quota)
            await cache_node.reach(partial(is_in, phase))
            for path, data in content.items():
                assert await cache_node.read(digest, inode(cache_node, digest, path), 0, 100) == data
            there = [path.is_dir() for path in (cache_node.folder(digest) / "tree").rglob("*")]
            assert (there.count(False), there.count(True)) == (files, 2 * files)


@pytest.mark.expected_logs("the list of this source's files is not written")
async def test_a_list_of_files_that_does_not_fit_above_the_floor_is_given_up(tmp_path: Path) -> None:
    store = MemoryStore()
    fill(store, {f"f{index}": b"" for index in range(11_000)})
    floor = DiskFloor(Floor(amount=10**6), Floor())
    async with open_cache_node(tmp_path, {"bucket": store}, capacity=10**6 + 1000, floor=floor) as cache_node:
        await cache_node.configure(listingId="1")
        status = await cache_node.reach(lambda s: s.listing is not None and s.listing.error is not None)
        assert status.listing is not None
        assert status.listing.error is not None
        assert status.listing.error.reason == Reason.DISK_FULL
    assert not any(name.startswith("manifest.building") for _, _, names in os.walk(tmp_path) for name in names)
