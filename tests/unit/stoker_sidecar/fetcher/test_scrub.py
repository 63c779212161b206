"""The scrub finds what flipped on the disk, has it fetched again, and says so.

It never takes a good file for a bad one.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.names import Reason
from stoker_api.nodecache import NodePhase
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.parts import CHUNK
from stoker_sidecar.fetcher.repairs import DamagedFile, Repairs
from stoker_sidecar.fetcher.scrub import ChecksumFile, Verdict, is_due, judge
from stoker_sidecar.linux.files import DirectReader
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.wire.fetcher_protocol import REPAIRED_FILES, SCRUBBED_BYTES
from tests.support.cache_node import SMALL, UID, CacheNodeUnderTest, fill, flip_a_bit, inode, open_cache_node
from tests.support.waiting import eventually

MD5 = "0cc175b9c0f1b6a831c399e269772661"
OTHER = "92eb5ffee6ae2fec3ad71c777531578f"
WEEK = 7 * 86400.0
FILES = SMALL | {"large": b"x" * CHUNK + b"y" * 5000}


def test_a_file_with_the_noted_checksum_is_good_whatever_its_etag() -> None:
    assert judge(MD5, "", 7, 7, proven=True) is Verdict.GOOD


def test_a_file_without_the_noted_checksum_is_damaged() -> None:
    assert judge("some-etag", "", 8, 7, proven=False) is Verdict.DAMAGED


def test_the_first_pass_compares_with_the_etag_once_it_is_known_for_an_md5() -> None:
    assert judge(MD5, OTHER, 7, None, proven=True) is Verdict.DAMAGED


def test_before_that_nothing_is_said() -> None:
    assert judge(MD5, OTHER, 7, None, proven=False) is Verdict.UNSURE


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_file_whose_md5_is_its_etag_is_always_good(crc: int, proven: bool) -> None:
    assert judge(MD5, MD5, crc, None, proven=proven) is Verdict.GOOD


@pytest.mark.parametrize(
    ("now", "scrubbed_at", "interval", "due"),
    [
        (WEEK / 8, None, WEEK, False),
        (WEEK / 6, None, WEEK, True),
        (WEEK, 1.0, WEEK, False),
        (WEEK + 1, 1.0, WEEK, True),
        (WEEK * 9, None, 0.0, False),
        (WEEK, WEEK + 1, WEEK, True),  # the clock was put back since
        (-1.0, None, WEEK, True),
    ],
)
def test_the_first_pass_comes_after_a_day_and_then_one_a_week(
    now: float, scrubbed_at: float | None, interval: float, due: bool
) -> None:
    assert is_due(now, scrubbed_at, 0.0, interval) is due


def test_sums_are_remembered_and_a_noted_zero_is_not_a_hole(tmp_path: Path) -> None:
    with ChecksumFile(tmp_path / "sums") as sums:
        sums.put(5, 0)
    with ChecksumFile(tmp_path / "sums") as sums:
        assert [sums.get(ino) for ino in (4, 5, 6)] == [None, 0, None]


@pytest.mark.parametrize("size", [0, 1, 4096, 4 * 1024 * 1024, 4 * 1024 * 1024 + 1])
def test_a_file_is_read_whole_past_the_page_cache(tmp_path: Path, size: int) -> None:
    (tmp_path / "f").write_bytes(b"a" * size)
    reader = DirectReader(tmp_path / "f", md5=True)
    while reader.step():
        pass
    reader.close()
    assert reader.size == size


def _count(cache_node: CacheNodeUnderTest, name: str) -> int:
    return sum(count.value for count in cache_node.node.progress().counts if count.name == name)


@pytest.fixture
async def cache_node(tmp_path: Path) -> AsyncIterator[CacheNodeUnderTest]:
    """Open a node that scrubs at every look."""
    async with open_cache_node(tmp_path, scrub_interval=1e-6) as made:
        fill(made.store, FILES)
        yield made


async def _scrub(cache_node: CacheNodeUnderTest) -> None:
    """Run a whole pass and wait until all of it was read."""
    size, before = sum(map(len, FILES.values())), _count(cache_node, SCRUBBED_BYTES)
    await cache_node.node.look_after()
    (version,) = cache_node.root.glob("datasets/*/versions/*")
    marker = version / "scrubbed"
    dated = marker.stat().st_mtime_ns if marker.exists() else 0
    await eventually(lambda: marker.exists() and marker.stat().st_mtime_ns > dated)
    assert _count(cache_node, SCRUBBED_BYTES) - before == size


async def test_sound_files_are_left_alone(cache_node: CacheNodeUnderTest) -> None:
    await cache_node.warm()
    asked = len(cache_node.store.gets)
    await _scrub(cache_node)
    await _scrub(cache_node)
    assert (len(cache_node.store.gets), cache_node.node.progress().notices) == (asked, ())


@pytest.mark.parametrize("path", ["train/b", "large"])
@pytest.mark.expected_logs("damaged on the disk")
async def test_a_flipped_bit_is_found_in_the_first_pass_where_etags_are_md5s(
    cache_node: CacheNodeUnderTest, path: str
) -> None:
    digest = await cache_node.warm()
    flip_a_bit(cache_node.folder(digest) / "tree" / path)
    await _scrub(cache_node)
    assert cache_node.tree(digest) == FILES


@pytest.mark.expected_logs("damaged on the disk")
async def test_a_flipped_bit_is_found_where_etags_say_nothing_once_its_checksum_was_taken(
    cache_node: CacheNodeUnderTest,
) -> None:
    cache_node.store.etag = lambda data: f"{len(data):032x}-2"
    digest = await cache_node.warm()
    await _scrub(cache_node)
    flip_a_bit(cache_node.folder(digest) / "tree" / "train/b")
    await _scrub(cache_node)
    assert cache_node.tree(digest) == FILES


@pytest.mark.expected_logs("damaged on the disk")
async def test_a_repair_is_said_and_counted(cache_node: CacheNodeUnderTest) -> None:
    digest = await cache_node.warm()
    flip_a_bit(cache_node.folder(digest) / "tree" / "train/b")
    await _scrub(cache_node)
    await eventually(lambda: bool(cache_node.node.progress().notices))
    (notice,) = cache_node.node.progress().notices
    assert notice.reason == Reason.REPAIRED
    assert "train/b" in notice.message
    assert _count(cache_node, REPAIRED_FILES) == 1


@pytest.mark.expected_logs("damaged on the disk")
async def test_the_version_stays_whole_for_its_readers_while_a_file_is_replaced(cache_node: CacheNodeUnderTest) -> None:
    digest = await cache_node.warm()
    flip_a_bit(cache_node.folder(digest) / "tree" / "train/b")
    await _scrub(cache_node)
    assert (cache_node.folder(digest) / "complete").exists()
    assert cache_node.status().phase is NodePhase.WARM


@pytest.mark.expected_logs("damaged on the disk")
async def test_a_version_that_lacks_a_file_is_not_whole_while_it_is_fetched_again(
    cache_node: CacheNodeUnderTest,
) -> None:
    digest = await cache_node.warm()
    (cache_node.folder(digest) / "tree" / "train/b").unlink()
    whole: list[bool] = []

    def asked(path: str, data: bytes) -> bytes:
        whole.append((cache_node.folder(digest) / "complete").exists())
        return data

    cache_node.store.mangle = asked
    await cache_node.node.look_after()
    await eventually((cache_node.folder(digest) / "tree" / "train/b").exists)
    assert whole == [False]


@pytest.mark.expected_logs("damaged on the disk")
async def test_an_open_file_goes_on_with_what_it_had(cache_node: CacheNodeUnderTest) -> None:
    digest = await cache_node.warm()
    path = cache_node.folder(digest) / "tree" / "train/b"
    flip_a_bit(path)
    with path.open("rb") as file:
        await _scrub(cache_node)
        assert file.read() == FILES["train/b"]


@pytest.mark.expected_logs("damaged on the disk")
async def test_a_damaged_file_that_the_source_has_no_more_is_taken_away(cache_node: CacheNodeUnderTest) -> None:
    digest = await cache_node.warm()
    flip_a_bit(cache_node.folder(digest) / "tree" / "train/b")
    cache_node.store.delete("train/b")
    await _scrub(cache_node)
    await cache_node.reach(lambda s: s.phase is NodePhase.FAILED)
    assert not (cache_node.folder(digest) / "tree" / "train/b").exists()
    assert not (cache_node.folder(digest) / "complete").exists()


@pytest.mark.expected_logs("damaged on the disk")
async def test_who_serves_a_version_is_told_which_of_its_files_were_repaired(cache_node: CacheNodeUnderTest) -> None:
    digest = await cache_node.warm()
    flip_a_bit(cache_node.folder(digest) / "tree" / "train/b")
    await _scrub(cache_node)
    told = cache_node.node.repairs.follow(UID, digest)
    assert await anext(told) == inode(cache_node, digest, "train/b")


async def test_repairs_of_one_version_are_told_from_the_first_on_as_they_happen() -> None:
    repairs = Repairs()
    repairs.add("u", "d", 5)
    repairs.add("u", "other", 6)
    told = repairs.follow("u", "d")
    assert await anext(told) == 5
    later = asyncio.ensure_future(anext(told))
    await asyncio.sleep(0)
    repairs.add("u", "d", 7)
    assert await later == 7


def _entry(size: int, mtime_ns: int = 0) -> Entry:
    return Entry(2, 1, b"f", False, size, mtime_ns, "", "")


def test_a_file_that_took_no_other_inode_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"damaged")
    with DamagedFile(VersionPaths(tmp_path), path, _entry(7)) as damaged:
        assert damaged.heal()
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"damaged", 0o444)


def test_an_old_inode_of_another_length_gets_the_bytes_and_date_of_the_new_one(tmp_path: Path) -> None:
    path, fresh = tmp_path / "f", tmp_path / "fresh"
    path.write_bytes(b"damaged and too long")
    fresh.write_bytes(b"right")
    with path.open("rb") as reader, DamagedFile(VersionPaths(tmp_path), path, _entry(5, 10**18)) as damaged:
        fresh.rename(path)
        assert damaged.heal()
        assert (reader.read(), os.fstat(reader.fileno()).st_mtime_ns) == (b"right", 10**18)


@pytest.mark.parametrize("there", [b"short", None])
def test_a_new_one_that_is_not_whole_or_gone_mends_nothing(tmp_path: Path, there: bytes | None) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"damaged")
    with path.open("rb") as reader, DamagedFile(VersionPaths(tmp_path), path, _entry(7)) as damaged:
        path.unlink()
        if there is not None:
            path.write_bytes(there)
        assert not damaged.heal()
        damaged.empty()
        assert reader.read() == b""
    assert list((tmp_path / "damaged").iterdir()) == []


def _stop_between(monkeypatch: pytest.MonkeyPatch, then: Callable[[Fetching, Entry], None]) -> None:
    """Have something done each time that a damaged file was fetched, before its readers get the bytes."""
    refetch = Fetching.refetch

    async def and_then(self: Fetching, entry: Entry) -> None:
        await refetch(self, entry)
        then(self, entry)

    monkeypatch.setattr(Fetching, "refetch", and_then)


@pytest.mark.expected_logs("damaged on the disk")
async def test_a_file_makes_no_way_before_readers_of_the_damaged_one_have_its_bytes(
    cache_node: CacheNodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = await cache_node.warm()
    path = cache_node.folder(digest) / "tree" / "train/b"
    flip_a_bit(path)
    _stop_between(monkeypatch, lambda fetching, entry: fetching.version.give_up(entry.ino, Path.unlink))
    with path.open("rb") as reader:
        await _scrub(cache_node)
        assert reader.read() == FILES["train/b"]


@pytest.mark.parametrize(("times", "read"), [(1, FILES["train/b"]), (9, b"")])
@pytest.mark.expected_logs("damaged on the disk")
async def test_a_file_that_someone_deletes_before_readers_have_its_bytes_is_fetched_once_more_or_they_have_none(
    cache_node: CacheNodeUnderTest, monkeypatch: pytest.MonkeyPatch, times: int, read: bytes
) -> None:
    digest = await cache_node.warm()
    path = cache_node.folder(digest) / "tree" / "train/b"
    flip_a_bit(path)
    deleted: list[Path] = []

    def someone_deletes_it(fetching: Fetching, entry: Entry) -> None:
        if len(deleted) < times:
            deleted.append(path)
            path.unlink()

    _stop_between(monkeypatch, someone_deletes_it)
    with path.open("rb") as reader:
        await _scrub(cache_node)
        assert reader.read() == read


@pytest.mark.parametrize("changes", [{"quotaBytes": 10}, {"paused": True}])
@pytest.mark.expected_logs("damaged on the disk")
async def test_a_file_is_repaired_in_the_room_that_the_damaged_one_had(
    cache_node: CacheNodeUnderTest, changes: dict[str, Any]
) -> None:
    digest = await cache_node.warm()
    await cache_node.configure(listingId="1", version=digest, eager=True, **changes)
    path = cache_node.folder(digest) / "tree" / "train/b"
    flip_a_bit(path)
    with path.open("rb") as reader:
        await _scrub(cache_node)
        assert (reader.read(), path.read_bytes()) == (FILES["train/b"], FILES["train/b"])


@pytest.mark.expected_logs("damaged on the disk")
async def test_who_has_a_damaged_file_open_that_the_source_has_no_more_reads_nothing_of_it(
    cache_node: CacheNodeUnderTest,
) -> None:
    digest = await cache_node.warm()
    path = cache_node.folder(digest) / "tree" / "train/b"
    with path.open("rb") as reader:
        flip_a_bit(path)
        cache_node.store.delete("train/b")
        await _scrub(cache_node)
        assert reader.read() == b""
    assert not path.exists()


@pytest.mark.expected_logs("damaged on the disk")
async def test_a_damaged_file_that_no_better_one_comes_for_is_taken_out_of_all_versions_that_share_it(
    cache_node: CacheNodeUnderTest,
) -> None:
    before = await cache_node.warm()
    cache_node.store.put("test/c", b"another", mtime_ns=1_800_000_000_000_000_000)
    digest = await cache_node.warm("2", retain=[before])
    assert (cache_node.folder(before) / "tree" / "train/b").samefile(cache_node.folder(digest) / "tree" / "train/b")
    flip_a_bit(cache_node.folder(digest) / "tree" / "train/b")
    cache_node.store.delete("train/b")
    await cache_node.node.look_after()
    await cache_node.reach(lambda status: status.phase is NodePhase.FAILED)
    for one in (before, digest):
        assert "train/b" not in cache_node.tree(one)
        assert not (cache_node.folder(one) / "complete").exists()


@pytest.mark.parametrize(("lost", "read"), [(False, FILES["train/b"]), (True, b"")])
async def test_what_a_kill_left_damaged_is_mended_or_emptied_when_the_version_is_opened_again(
    tmp_path: Path, lost: bool, read: bytes
) -> None:
    async with open_cache_node(tmp_path) as made:
        fill(made.store, FILES)
        digest = await made.warm()
        path, paths = made.folder(digest) / "tree" / "train/b", VersionPaths(made.folder(digest))
        entry = Entry(inode(made, digest, "train/b"), 1, b"b", False, 4000, path.stat().st_mtime_ns, "", "")
    flip_a_bit(path)
    with path.open("rb") as reader:
        with DamagedFile(paths, path, entry):  # and no more of it: the process is killed
            path.unlink()
            if not lost:
                path.write_bytes(FILES["train/b"])
                os.utime(path, ns=(entry.mtime_ns, entry.mtime_ns))
        async with open_cache_node(tmp_path, {"bucket": made.store}) as again:
            await again.configure(listingId="1", version=digest, eager=True, paused=lost)
            await eventually(lambda: not list(paths.damaged.iterdir()))
            await eventually(lambda: reader.seek(0) == 0 and reader.read() == read)
