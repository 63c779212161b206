"""The scrub finds flipped bits on the disk, fetches the file again, and reports it.

It never reports an intact file.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.node.scrub import FoundSums, Verdict, is_due, judge
from stoker_sidecar.fetcher.ondisk.file_sums import ChecksumFile, NotedSum
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.ondisk.recovery.repairs import DamagedFile
from stoker_sidecar.linux.files import DirectReader
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.wire.fetcher_protocol import REPAIRED_FILES, SCRUBBED_BYTES
from tests.support.cache_node import SMALL, UID, CacheNodeUnderTest, fill, flip_a_bit, inode, open_cache_node
from tests.support.waiting import eventually

MD5 = "0cc175b9c0f1b6a831c399e269772661"
OTHER = "92eb5ffee6ae2fec3ad71c777531578f"
WEEK = 7 * 86400.0
FILES = SMALL | {"large": b"x" * CHUNK + b"y" * 5000}


ARRIVED, LATER = b"arrived.", b"damaged."


@pytest.mark.parametrize(
    ("etag", "found", "noted", "arrived", "proven", "verdict"),
    [
        (MD5, FoundSums(7), NotedSum(7, proven=True), None, True, Verdict.GOOD),
        ("some-etag", FoundSums(8), NotedSum(7, proven=True), None, False, Verdict.DAMAGED),
        ("some-etag", FoundSums(8), NotedSum(7, proven=False), None, False, Verdict.DAMAGED),
        (MD5, FoundSums(7, OTHER), None, None, True, Verdict.DAMAGED),
        (MD5, FoundSums(7, OTHER), None, None, False, Verdict.UNSURE),
        (MD5, FoundSums(7, OTHER), NotedSum(7, proven=False), None, True, Verdict.DAMAGED),  # of an earlier release
        ("some-etag", FoundSums(7), None, None, True, Verdict.UNKNOWN),  # the first check proves nothing
        ("some-etag", FoundSums(7), NotedSum(7, proven=False), None, True, Verdict.UNKNOWN),
        ("", FoundSums(7), None, None, False, Verdict.UNKNOWN),
        ("some-etag", FoundSums(7, "", ARRIVED), None, ARRIVED, False, Verdict.GOOD),
        ("some-etag", FoundSums(7, "", LATER), None, ARRIVED, False, Verdict.DAMAGED),
        (MD5, FoundSums(7, OTHER, LATER), None, ARRIVED, False, Verdict.DAMAGED),
    ],
)
def test_a_file_is_judged_by_what_proves_it(
    etag: str, found: FoundSums, noted: NotedSum | None, arrived: bytes | None, proven: bool, verdict: Verdict
) -> None:
    assert judge(etag, found, noted, arrived, proven=proven) is verdict


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_file_whose_md5_is_its_etag_is_always_good(crc: int, proven: bool) -> None:
    assert judge(MD5, FoundSums(crc, MD5), None, None, proven=proven) is Verdict.GOOD


@pytest.mark.parametrize(
    ("now", "scrubbed_at", "interval", "due"),
    [
        (WEEK / 8, None, WEEK, False),
        (WEEK / 6, None, WEEK, True),
        (WEEK, 1.0, WEEK, False),
        (WEEK + 1, 1.0, WEEK, True),
        (WEEK * 9, None, 0.0, False),
        (WEEK, WEEK + 1, WEEK, True),  # the clock was set back since then
        (-1.0, None, WEEK, True),
    ],
)
def test_the_first_pass_comes_after_a_day_and_then_one_a_week(
    now: float, scrubbed_at: float | None, interval: float, due: bool
) -> None:
    assert is_due(now, scrubbed_at, 0.0, interval) is due


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
    """Open a node that scrubs at every check."""
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
@pytest.mark.parametrize("path", ["large", "train/b"])
async def test_damage_from_before_the_first_pass_is_found_where_etags_say_nothing(
    cache_node: CacheNodeUnderTest, path: str
) -> None:
    cache_node.store.etag = lambda data: f"{len(data):032x}-2"
    if path != "large":  # large files have a checksum from their arrival, other files need the checksum of the source
        cache_node.store.states = _stated
    digest = await cache_node.warm()
    flip_a_bit(cache_node.folder(digest) / "tree" / path)
    await _scrub(cache_node)
    assert cache_node.tree(digest) == FILES


def _stated(data: bytes) -> Checksum:
    return Checksum("sha256", hashlib.sha256(data).digest())


async def test_what_nothing_proves_is_not_taken_for_right(cache_node: CacheNodeUnderTest) -> None:
    cache_node.store.etag = lambda data: f"{len(data):032x}-2"
    digest = await cache_node.warm()
    await _scrub(cache_node)
    with ChecksumFile(cache_node.folder(digest) / "sums") as sums:
        noted = {path: sums.get(inode(cache_node, digest, path)) for path in ("large", "train/b")}
    assert {path: one is not None and one.proven for path, one in noted.items()} == {"large": True, "train/b": False}


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


def _stop_between(monkeypatch: pytest.MonkeyPatch, then: Callable[[Fetching, Entry], None]) -> None:
    """Run ``then`` after each download of a damaged file, before its readers get the bytes."""
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
        with DamagedFile(paths, path, entry):  # then the process is killed
            path.unlink()
            if not lost:
                path.write_bytes(FILES["train/b"])
                os.utime(path, ns=(entry.mtime_ns, entry.mtime_ns))
        async with open_cache_node(tmp_path, {"bucket": made.store}) as again:
            await again.configure(listingId="1", version=digest, eager=True, paused=lost)
            await eventually(lambda: not list(paths.damaged.iterdir()))
            await eventually(lambda: reader.seek(0) == 0 and reader.read() == read)
