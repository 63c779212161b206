"""Compressed copies according to rules: kept, counted, lost and found again."""

import os
from pathlib import Path

import pytest

from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.fetcher.download import packing
from stoker_sidecar.fetcher.ondisk.packing_decision import SAMPLE_FILES, SourceMeter
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.linux import files
from stoker_sidecar.version import packed_copy
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.version.packed_copy import CopyOrder
from stoker_sidecar.wire.fetcher_hints import FileKnobs, PackingKnobs, Tune
from stoker_sidecar.wire.fetcher_protocol import PACKED_BYTES, UNPACKED_BYTES
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, inode, open_cache_node

SIZE = 39 * 946
TEXT = {f"text/{number:02}.csv": b"%07d,some,words,and,some,words,more\n" % number * 946 for number in range(20)}
LARGE = b"words and words in a large file, and words\n" * (CHUNK // 43 + 50_000)
ALWAYS = PackingKnobs(3, 2.0, tried=False)
TRIED = PackingKnobs(3, 2.0)
QUOTA = 4 * SIZE


async def packed(
    cache_node: CacheNodeUnderTest,
    content: dict[str, bytes] = TEXT,
    knobs: PackingKnobs = ALWAYS,
    quota: int | None = QUOTA,
) -> str:
    """Warm a version with these knobs, as far as it fits. Return its digest."""
    fill(cache_node.store, content)
    digest = await cache_node.list()
    cache_node.node.tune(Tune(UID, digest, (FileKnobs(packing=knobs),)))
    await cache_node.configure(listingId="1", version=digest, eager=True, quotaBytes=quota)
    await cache_node.reach(lambda s: s.phase in (NodePhase.FULL, NodePhase.WARM))
    return digest


async def check_all(cache_node: CacheNodeUnderTest, digest: str, content: dict[str, bytes] = TEXT) -> None:
    for path, data in content.items():
        assert await cache_node.read(digest, inode(cache_node, digest, path), 0, len(data)) == data


def count(cache_node: CacheNodeUnderTest, name: str) -> int:
    return sum(row.value for row in cache_node.node.progress().counts if row.name == name)


async def test_more_files_fit_as_copies_and_are_read_from_them(cache_node: CacheNodeUnderTest) -> None:
    digest = await packed(cache_node)
    status = cache_node.status()
    assert (status.warm_files, status.warm_bytes) == (len(TEXT), sum(map(len, TEXT.values())))
    assert (len(cache_node.copies(digest)), cache_node.tree(digest)) == (len(TEXT), {})
    gets = len(cache_node.store.gets)
    await check_all(cache_node, digest)
    assert len(cache_node.store.gets) == gets
    assert not list((cache_node.folder(digest) / "parts").iterdir())


async def test_a_large_file_comes_in_chunks_and_is_kept_as_a_copy(cache_node: CacheNodeUnderTest) -> None:
    content = {"large.csv": LARGE}
    digest = await packed(cache_node, content | {"noise": os.urandom(1000)}, quota=len(LARGE) + 10)
    assert list(cache_node.copies(digest)) == [inode(cache_node, digest, "large.csv")]
    await check_all(cache_node, digest, content)
    assert not list((cache_node.folder(digest) / "parts").iterdir())


async def test_what_fits_as_it_is_has_no_copies_and_becomes_whole(cache_node: CacheNodeUnderTest) -> None:
    digest = await packed(cache_node, quota=None)
    assert cache_node.status().phase is NodePhase.WARM
    assert cache_node.tree(digest) == TEXT


async def test_the_bytes_of_copies_count_against_the_quota(cache_node: CacheNodeUnderTest) -> None:
    digest = await packed(cache_node)
    on_disk = sum(path.stat().st_size for path in cache_node.copies(digest).values())
    assert cache_node.node.progress().used_bytes == on_disk < QUOTA
    assert count(cache_node, PACKED_BYTES) == on_disk
    assert count(cache_node, UNPACKED_BYTES) == sum(map(len, TEXT.values()))


async def test_what_does_not_fit_beside_copies_is_read_through_and_the_status_says_both(
    cache_node: CacheNodeUnderTest,
) -> None:
    content = TEXT | {f"z/{number}.bin": os.urandom(SIZE) for number in range(9)}
    digest = await packed(cache_node, content)
    error = cache_node.status().error
    assert error is not None
    assert error.reason == Reason.QUOTA_EXCEEDED
    assert "20 of them compressed" in error.message
    await check_all(cache_node, digest, content)


async def test_a_trial_that_pays_has_copies_made_of_what_comes_after_it(
    cache_node: CacheNodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SourceMeter, "read", lambda *_: 10e6)  # the speed of the source
    content = {f"{number:02}.csv": data for number, data in enumerate([*TEXT.values()] * 5)}
    digest = await packed(cache_node, content, TRIED, quota=20 * SIZE)
    assert len(content) - 2 * SAMPLE_FILES < len(cache_node.copies(digest)) <= len(content) - SAMPLE_FILES + 1
    await check_all(cache_node, digest, content)


async def test_a_trial_that_does_not_pay_has_no_copies_made(
    cache_node: CacheNodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SourceMeter, "read", lambda *_: 100e9)
    content = {f"{number:02}.csv": data for number, data in enumerate([*TEXT.values()] * 5)}
    digest = await packed(cache_node, content, TRIED, quota=20 * SIZE)
    assert cache_node.copies(digest) == {}


async def test_what_does_not_become_smaller_goes_into_the_tree(cache_node: CacheNodeUnderTest) -> None:
    content = {f"{number}": os.urandom(SIZE) for number in range(8)}
    digest = await packed(cache_node, content)
    assert cache_node.copies(digest) == {}
    assert len(cache_node.tree(digest)) == 4


async def test_what_is_compressed_by_its_first_bytes_goes_into_the_tree(cache_node: CacheNodeUnderTest) -> None:
    content = {f"{number}.txt": b"\xff\xd8\xff" + b"it would pack well" * 2000 for number in range(8)}
    digest = await packed(cache_node, content)
    assert cache_node.copies(digest) == {}


@pytest.mark.parametrize("damage", ["deleted", "spoilt", "empty"])
async def test_a_copy_that_is_damaged_is_fetched_again(cache_node: CacheNodeUnderTest, damage: str) -> None:
    digest = await packed(cache_node)
    for path in cache_node.copies(digest).values():
        data = path.read_bytes()
        path.unlink()
        if damage != "deleted":
            path.write_bytes(b"" if damage == "empty" else data[:50] + b"spoilt" + data[56:])
    await check_all(cache_node, digest)
    assert len(cache_node.store.gets) == 2 * len(TEXT)
    assert len(cache_node.copies(digest)) == len(TEXT)


async def test_with_room_for_all_files_take_the_place_of_their_copies(cache_node: CacheNodeUnderTest) -> None:
    digest = await packed(cache_node)
    await cache_node.configure(listingId="1", version=digest, eager=True)
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
    assert (cache_node.copies(digest), cache_node.tree(digest)) == ({}, TEXT)
    assert cache_node.node.progress().used_bytes == sum(map(len, TEXT.values()))


async def test_a_disk_that_takes_no_copy_takes_the_file(
    cache_node: CacheNodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(files.FULL[0], "no space")

    monkeypatch.setattr(packed_copy, "_pack", full)
    digest = await packed(cache_node)
    assert (cache_node.copies(digest), len(cache_node.tree(digest))) == ({}, 4)
    assert not list((cache_node.folder(digest) / "packed").iterdir())


async def test_a_next_fetcher_finds_the_copies_and_clears_what_was_never_whole(tmp_path: Path) -> None:
    async with open_cache_node(tmp_path) as first:
        digest = await packed(first)
        store = first.store
    folder = first.folder(digest) / "packed"
    (folder / "3.dead.tmp").write_bytes(b"half of a co")
    (folder / "999.zst").write_bytes(b"of no file")
    async with open_cache_node(tmp_path, {"bucket": store}) as second:
        gets = len(store.gets)
        await second.configure(listingId="1", version=digest, eager=True, quotaBytes=QUOTA)
        await second.reach(lambda s: s.warm_files == len(TEXT))
        await check_all(second, digest)
        assert len(store.gets) == gets
        assert len(list(folder.iterdir())) == len(TEXT)


async def test_an_evicted_version_loses_its_copies(cache_node: CacheNodeUnderTest) -> None:
    digest = await packed(cache_node)
    await cache_node.configure(listingId="1", version=digest)
    assert cache_node.copies(digest)
    dataset = cache_node.node._datasets[UID]
    await dataset.versions.empty(digest)
    assert cache_node.copies(digest) == {}


async def test_one_copy_of_a_version_is_made_at_a_time(
    cache_node: CacheNodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, most, make = [0], [0], packing._copy_uncompressed

    def watched(source: Path, target: Path, entry: Entry, order: CopyOrder) -> int:
        busy[0] += 1
        most[0] = max(most[0], busy[0])
        try:
            return make(source, target, entry, order)
        finally:
            busy[0] -= 1

    monkeypatch.setattr(packing, "_copy_uncompressed", watched)
    await packed(cache_node)
    assert most == [1]
