"""What a node does with its datasets, over stores in memory."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker_api.names import Reason
from stoker_api.nodecache import NodePhase
from stoker_sidecar.cache.manifest import Manifest
from stoker_sidecar.core.protocol import Read
from stoker_sidecar.core.spans import CHUNK
from stoker_sidecar.errors import (
    AccessDenied,
    InUse,
    InvalidCredentials,
    NotConfigured,
    NotYetConfigured,
    ObjectGone,
    ProtocolError,
    ServerError,
    SourceChanged,
)
from stoker_sidecar.store.memory import MemoryStore
from tests.support.cache_node import DATASET, UID, Subject, cache_node
from tests.support.waiting import eventually

SMALL = {"train/a": b"alpha", "train/b": b"beta" * 1000, "test/c": b"gamma", "zero": b""}
LARGE = os.urandom(CHUNK) + os.urandom(CHUNK) + b"the end"


@pytest.fixture
async def subject(tmp_path: Path) -> AsyncIterator[Subject]:
    async with cache_node(tmp_path / "cache") as found:
        yield found


def _fill(store: MemoryStore, content: dict[str, bytes]) -> None:
    for path, data in content.items():
        store.put(path, data, mtime_ns=1_700_000_000_000_000_000)


def _ino(subject: Subject, digest: str, path: str) -> int:
    manifest = Manifest.open(subject.folder(digest) / "manifest.sqlite")
    entry = manifest.find(path)
    manifest.close()
    assert entry is not None
    return entry.ino


async def test_warming_brings_every_file_as_it_is(subject: Subject) -> None:
    _fill(subject.store, SMALL | {"large": LARGE})
    digest = await subject.warm()
    assert subject.tree(digest) == SMALL | {"large": LARGE}


async def test_a_warm_node_tells_what_it_did(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    await subject.warm()
    status = subject.status()
    total = sum(map(len, SMALL.values()))
    assert (status.files, status.warm_files, status.fetched_files) == (4, 4, 4)
    assert (status.bytes, status.warm_bytes, status.error) == (total, total, None)


async def test_files_are_read_only_and_dated_like_their_objects(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    digest = await subject.warm()
    found = (subject.folder(digest) / "tree/train/a").stat()
    assert (found.st_mode & 0o777, found.st_mtime_ns) == (0o444, 1_700_000_000_000_000_000)


async def test_a_complete_version_is_marked_and_leaves_no_parts(subject: Subject) -> None:
    _fill(subject.store, {"large": LARGE})
    digest = await subject.warm()
    assert (subject.folder(digest) / "complete").exists()
    assert list((subject.folder(digest) / "parts").iterdir()) == []


async def test_listing_alone_fetches_nothing(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    digest = await subject.list()
    await subject.configure(listingId="1", version=digest)
    status = await subject.reach(lambda s: s.phase is NodePhase.IDLE)
    assert (status.files, status.warm_files, subject.store.gets) == (4, 0, [])


async def test_a_listing_is_not_made_twice_for_one_id(tmp_path: Path) -> None:
    store = MemoryStore()
    _fill(store, SMALL)
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        first = await subject.list("7")
    store.put("new", b"x")
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        assert await subject.list("7") == first
        assert await subject.list("8") != first


async def test_include_and_exclude_choose(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    source = DATASET["source"] | {"include": ["train/**"], "exclude": ["**/b"]}
    digest = await subject.warm(source=source)
    assert subject.tree(digest) == {"train/a": b"alpha"}


async def test_an_empty_source_is_an_error_of_the_listing(subject: Subject) -> None:
    await subject.configure(listingId="1")
    status = await subject.reach(lambda s: s.listing is not None)
    assert status.listing is not None
    assert status.listing.error is not None
    assert (status.listing.error.reason, status.phase) == (Reason.EMPTY_SOURCE, NodePhase.FAILED)


async def test_a_listing_goes_on_by_itself_when_the_source_heals(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    subject.store.fail(AccessDenied("grant s3:ListBucket"), times=3)
    assert await subject.list()


async def test_a_read_brings_just_its_chunk_and_the_next(subject: Subject) -> None:
    _fill(subject.store, {"large": LARGE})
    digest = await subject.list()
    await subject.configure(listingId="1", version=digest)
    ino = _ino(subject, digest, "large")
    assert await subject.read(digest, ino, 100, 50) == LARGE[100:150]
    await eventually(lambda: len(subject.store.gets) == 2)
    assert [get.offset for get in subject.store.gets] == [0, CHUNK]


async def test_a_read_across_chunks_is_right(subject: Subject) -> None:
    _fill(subject.store, {"large": LARGE})
    digest = await subject.list()
    ino = _ino(subject, digest, "large")
    assert await subject.read(digest, ino, CHUNK - 10, CHUNK + 1000) == LARGE[CHUNK - 10 : 2 * CHUNK + 990]


async def test_reading_all_of_a_cold_dataset_makes_it_complete(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    digest = await subject.list()
    await subject.configure(listingId="1", version=digest)
    for path, data in SMALL.items():
        assert await subject.read(digest, _ino(subject, digest, path), 0, 10_000) == data
    await subject.reach(lambda s: s.phase is NodePhase.WARM)


async def test_readers_of_one_chunk_share_one_download(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    digest = await subject.list()
    ino = _ino(subject, digest, "train/b")
    await subject.configure(listingId="1", version=digest, eager=True)
    for _ in range(5):
        assert await subject.read(digest, ino, 0, 4000) == SMALL["train/b"]
    await subject.reach(lambda s: s.phase is NodePhase.WARM)
    assert [get.path for get in subject.store.gets].count("train/b") == 1


async def test_a_restart_fetches_no_finished_file_again(tmp_path: Path) -> None:
    store = MemoryStore()
    _fill(store, SMALL | {"large": LARGE})
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        digest = await subject.list()
        for path in ("train/a", "train/b"):
            await subject.read(digest, _ino(subject, digest, path), 0, 10)
        await subject.read(digest, _ino(subject, digest, "large"), CHUNK, 10)
    before = len(store.gets)
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        await subject.warm()
        assert subject.tree(digest) == SMALL | {"large": LARGE}
    again = [(get.path, get.offset) for get in store.gets[before:]]
    assert sorted(again) == [("large", 0), ("large", 2 * CHUNK), ("test/c", 0)]


async def test_a_complete_version_asks_the_source_for_nothing_after_a_restart(tmp_path: Path) -> None:
    store = MemoryStore()
    _fill(store, SMALL)
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        await subject.warm()
    before = len(store.gets)
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        await subject.warm()
        assert subject.status().fetched_files == len(SMALL)
    assert len(store.gets) == before


async def test_a_file_that_is_not_as_it_was_written_is_fetched_again(tmp_path: Path) -> None:
    store = MemoryStore()
    _fill(store, SMALL)
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
    _fill(subject.store, SMALL)
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
    _fill(subject.store, SMALL)
    old = await subject.warm("1")
    subject.store.put("new", b"new", 5)
    await subject.warm("2", retain=[old])
    assert subject.node.progress().used_bytes == sum(map(len, SMALL.values())) + 3


async def test_a_file_of_the_same_content_and_another_date_is_copied_not_fetched(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    old = await subject.warm("1")
    subject.store.put("train/a", b"alpha", mtime_ns=77_000)
    before = len(subject.store.gets)
    new = await subject.warm("2", retain=[old])
    assert len(subject.store.gets) == before
    dates = [(subject.folder(version) / "tree/train/a").stat().st_mtime_ns for version in (old, new)]
    assert dates == [1_700_000_000_000_000_000, 77_000]


async def test_a_version_that_no_one_wants_is_deleted(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    old = await subject.warm("1")
    subject.store.put("new", b"new")
    await subject.warm("2")
    await eventually(lambda: not subject.folder(old).exists())
    assert subject.status().retained == ()


async def test_a_version_that_is_mounted_here_stays(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    old = await subject.warm("1")
    subject.store.put("new", b"new")
    new = await subject.list("2")
    await subject.configure(held=(old,), listingId="2", version=new, eager=True)
    await subject.reach(lambda s: s.phase is NodePhase.WARM and s.version == new)
    assert subject.status().retained == (old,)
    assert subject.tree(old) == SMALL


async def test_a_changed_object_is_an_error_and_never_a_mix(subject: Subject) -> None:
    _fill(subject.store, {"large": LARGE, "other": b"fine"})
    digest = await subject.list()
    ino = _ino(subject, digest, "large")
    await subject.read(digest, ino, 0, 10)
    await eventually(lambda: len(subject.store.gets) == 2)
    subject.store.put("large", LARGE[::-1])
    with pytest.raises(SourceChanged):
        await subject.read(digest, ino, 2 * CHUNK, 5)
    assert await subject.read(digest, ino, 0, 10) == LARGE[:10]


async def test_warming_goes_past_a_changed_object_and_says_so(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    digest = await subject.list()
    subject.store.put("train/a", b"other")
    await subject.configure(listingId="1", version=digest, eager=True)
    status = await subject.reach(lambda s: s.phase is NodePhase.FAILED and s.warm_files == 3)
    assert status.error is not None
    assert (status.error.reason, status.error.temporary) == (Reason.SOURCE_CHANGED, False)
    assert "train/a" in status.error.message


async def test_a_deleted_object_is_gone_for_its_reader(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    digest = await subject.list()
    subject.store.delete("train/a")
    with pytest.raises(ObjectGone):
        await subject.read(digest, _ino(subject, digest, "train/a"), 0, 5)


async def test_warming_goes_on_by_itself_when_the_source_heals(subject: Subject) -> None:
    _fill(subject.store, {f"f{index:03}": b"x" * index for index in range(1, 100)})
    digest = await subject.list()
    subject.store.fail(ServerError("the server failed"), times=300)
    await subject.configure(listingId="1", version=digest, eager=True)
    status = await subject.reach(lambda s: s.phase is NodePhase.WARM)
    assert status.error is None


async def test_a_dataset_that_fails_does_not_touch_another(subject: Subject) -> None:
    subject.stores["broken"] = MemoryStore({"f": (b"x", 0)})
    _fill(subject.store, SMALL)
    digest = await subject.list()
    subject.stores["broken"].fail(InvalidCredentials("renew the Secret"), times=100_000)
    other = {"uid": "uid-2", "name": "broken", "source": {"uri": "s3://broken"}, "listingId": "1", "priority": 9}
    await subject.configure(**other)
    await subject.configure(listingId="1", version=digest, eager=True)
    await subject.reach(lambda s: s.phase is NodePhase.WARM)
    status = await subject.reach(lambda s: s.error is not None, uid="uid-2")
    assert status.error is not None
    assert status.error.reason == Reason.INVALID_CREDENTIALS


async def test_a_spoilt_body_is_never_kept(subject: Subject) -> None:
    _fill(subject.store, {f"f{index}": b"content %d" % index for index in range(20)})
    digest = await subject.list()
    attempts: dict[str, int] = {}

    def spoil_first(path: str, data: bytes) -> bytes:
        attempts[path] = attempts.get(path, 0) + 1
        return data[:-1] + b"!" if attempts[path] == 1 and path != "f0" else data

    subject.store.mangle = spoil_first
    await subject.configure(listingId="1", version=digest, eager=True)
    await subject.reach(lambda s: s.phase is NodePhase.WARM)
    assert subject.tree(digest) == {f"f{index}": b"content %d" % index for index in range(20)}


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"!"])
async def test_a_short_or_long_body_is_never_kept(subject: Subject, change: object) -> None:
    _fill(subject.store, {"large": LARGE, "small": b"small"})
    digest = await subject.list()
    assert callable(change)
    subject.store.mangle = lambda path, data: change(data)
    await subject.configure(listingId="1", version=digest, eager=True)
    status = await subject.reach(lambda s: s.error is not None)
    assert status.error is not None
    assert (status.error.reason, subject.tree(digest)) == (Reason.CORRUPT_BODY, {})


async def test_a_spoilt_large_file_is_fetched_anew(subject: Subject) -> None:
    _fill(subject.store, {"large": LARGE, "a": b"proof that ETags are MD5s"})
    digest = await subject.list()
    spoilt: list[str] = []

    def spoil_once(path: str, data: bytes) -> bytes:
        if path == "large" and not spoilt:
            spoilt.append(path)
            return b"!" + data[1:]
        return data

    subject.store.mangle = spoil_once
    await subject.read(digest, _ino(subject, digest, "a"), 0, 1)
    await subject.configure(listingId="1", version=digest, eager=True)
    await subject.reach(lambda s: s.phase is NodePhase.WARM)
    assert subject.tree(digest)["large"] == LARGE


async def test_a_quota_keeps_what_fits_and_the_rest_is_read_through(subject: Subject) -> None:
    content = {f"f{index}": os.urandom(100) for index in range(10)}
    _fill(subject.store, content)
    digest = await subject.list()
    await subject.configure(listingId="1", version=digest, eager=True, quotaBytes=450)
    status = await subject.reach(lambda s: s.phase is NodePhase.FULL)
    assert (status.warm_files, status.warm_bytes) == (4, 400)
    assert status.error is not None
    assert status.error.reason == Reason.QUOTA_EXCEEDED
    for path, data in content.items():
        assert await subject.read(digest, _ino(subject, digest, path), 0, 100) == data
    assert subject.status().warm_files == 4


async def test_files_beyond_the_quota_do_not_drive_out_what_is_kept(subject: Subject) -> None:
    content = {f"f{index}": os.urandom(100) for index in range(10)}
    _fill(subject.store, content)
    digest = await subject.list()
    await subject.configure(listingId="1", version=digest, eager=True, quotaBytes=450)
    await subject.reach(lambda s: s.phase is NodePhase.FULL)
    kept = subject.tree(digest)
    for path in content:
        await subject.read(digest, _ino(subject, digest, path), 0, 100)
    assert subject.tree(digest) == kept


async def test_a_quota_smaller_than_any_file_says_so_and_serves_all(subject: Subject) -> None:
    _fill(subject.store, {"a": b"alpha", "b": b"beta"})
    digest = await subject.list()
    await subject.configure(listingId="1", version=digest, eager=True, quotaBytes=3)
    status = await subject.reach(lambda s: s.phase is NodePhase.FULL)
    assert status.error is not None
    assert status.error.reason == Reason.QUOTA_TOO_SMALL
    assert await subject.read(digest, _ino(subject, digest, "a"), 0, 5) == b"alpha"


async def test_a_raised_quota_is_used(subject: Subject) -> None:
    _fill(subject.store, {"a": b"alpha", "b": b"beta"})
    digest = await subject.list()
    await subject.configure(listingId="1", version=digest, eager=True, quotaBytes=5)
    await subject.reach(lambda s: s.phase is NodePhase.FULL)
    await subject.configure(listingId="1", version=digest, eager=True, quotaBytes=100)
    await subject.reach(lambda s: s.phase is NodePhase.WARM)


async def test_what_is_read_through_is_dropped_again(tmp_path: Path) -> None:
    store = MemoryStore()
    content = {f"f{index}": os.urandom(1000) for index in range(20)}
    _fill(store, content)
    async with cache_node(tmp_path, {"bucket": store}, transient=3000) as subject:
        digest = await subject.list()
        await subject.configure(listingId="1", version=digest, quotaBytes=10)
        for path, data in content.items():
            assert await subject.read(digest, _ino(subject, digest, path), 0, 1000) == data
        parts = [path.stat().st_size for path in (subject.folder(digest) / "parts").iterdir()]
    assert sum(parts) <= 3000


async def test_a_paused_dataset_still_serves_reads(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    digest = await subject.list()
    await subject.configure(listingId="1", version=digest, eager=True, paused=True)
    await subject.reach(lambda s: s.phase is NodePhase.IDLE and s.files > 0)
    assert await subject.read(digest, _ino(subject, digest, "train/a"), 0, 5) == b"alpha"
    assert [get.path for get in subject.store.gets] == ["train/a"]


async def test_removing_takes_all_off_the_disk(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    await subject.warm()
    await subject.node.remove(UID)
    assert list((subject.root / "datasets").iterdir()) == []
    await eventually(lambda: list((subject.root / "trash").iterdir()) == [])
    assert subject.node.progress().datasets == ()


async def test_a_mounted_dataset_is_not_removed(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    digest = await subject.warm()
    await subject.configure(held=(digest,), listingId="1", version=digest, eager=True)
    with pytest.raises(InUse, match="vision/digits"):
        await subject.node.remove(UID)
    assert subject.tree(digest) == SMALL


async def test_a_folder_that_no_one_configured_is_told_and_can_be_removed(tmp_path: Path) -> None:
    (tmp_path / "datasets" / "uid-old" / "versions").mkdir(parents=True)
    async with cache_node(tmp_path) as subject:
        assert subject.node.progress().orphans == ("uid-old",)
        await subject.node.remove("uid-old")
        assert subject.node.progress().orphans == ()


async def test_a_dataset_that_was_not_told_yet_asks_to_come_again(subject: Subject) -> None:
    with pytest.raises(NotYetConfigured):
        await subject.node.read(Read("uid-9", "d", 2, 0, 1))


@pytest.mark.parametrize("digest", ["0" * 64, "../../etc"])
async def test_a_version_that_is_not_here_is_refused(subject: Subject, digest: str) -> None:
    await subject.configure()
    with pytest.raises(NotConfigured):
        await subject.node.read(Read(UID, digest, 2, 0, 1))


async def test_a_folder_cannot_be_read_as_a_file(subject: Subject) -> None:
    _fill(subject.store, SMALL)
    digest = await subject.list()
    with pytest.raises(NotConfigured, match="not a file"):
        await subject.node.read(Read(UID, digest, 1, 0, 1))


async def test_a_uid_that_is_no_folder_name_is_refused(subject: Subject) -> None:
    with pytest.raises(NotConfigured):
        await subject.configure(uid="../evil")


async def test_a_dataset_that_does_not_parse_is_refused(subject: Subject) -> None:
    with pytest.raises(ProtocolError):
        await subject.configure(source=None)


async def test_parts_of_another_boot_are_not_trusted(tmp_path: Path) -> None:
    store = MemoryStore()
    _fill(store, {"large": LARGE})
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        digest = await subject.list()
        await subject.read(digest, _ino(subject, digest, "large"), CHUNK, 10)
    (tmp_path / "boot").write_text("another boot")
    before = len(store.gets)
    async with cache_node(tmp_path, {"bucket": store}) as subject:
        await subject.warm()
    assert len(store.gets) - before == 3
