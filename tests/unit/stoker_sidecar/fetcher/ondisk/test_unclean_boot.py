"""Trust in a cache folder after an unclean boot, and after a restart of the sidecar alone."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from errno import EIO
from pathlib import Path
from threading import Event

import pytest
import trio

from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.errors import AccessDenied, FsError
from stoker_sidecar.fetcher.ondisk import sync_point
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.recovery.preparation import Preparation
from stoker_sidecar.fetcher.ondisk.recovery.quarantine import delete_emptied, release
from stoker_sidecar.fetcher.space.cache_disk import CacheDisk
from stoker_sidecar.fuse.dataset_fs import DatasetFs
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.config.disk_floor import NO_FLOOR
from stoker_sidecar.wire.fetcher_protocol import ReadDone
from tests.fakes.object_store import MemoryStore, md5_etag
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, open_cache_node
from tests.support.versions import VersionFolder, load_version
from tests.support.waiting import eventually

FILES = {f"f{index}": b"content %d" % index * 100 for index in range(5)}


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    fill(made, FILES)
    return made


def _reboot(root: Path) -> None:
    (root / "boot").write_text("another boot")


def _zero(path: Path) -> None:
    """Overwrite the file with zeros. Size and date stay, as on a file system that lost the bytes."""
    date = path.stat().st_mtime_ns
    path.chmod(0o644)
    path.write_bytes(bytes(path.stat().st_size))
    path.chmod(0o444)
    os.utime(path, ns=(date, date))


def _truncate(path: Path) -> None:
    path.chmod(0o644)
    os.truncate(path, 7)


def _empty(path: Path) -> None:
    path.chmod(0o644)
    os.truncate(path, 0)


async def _digest(root: Path, store: MemoryStore, *, finished: bool) -> str:
    """Leave a version with all of its files, and return its digest.

    If it is not ``finished``, the power failed before the version was marked complete or synced.
    """
    async with open_cache_node(root, {"bucket": store}) as cache_node:
        digest = await cache_node.warm()
        await eventually((cache_node.folder(digest) / "synced").exists)
        if not finished:
            for marker in ("complete", "synced"):
                (cache_node.folder(digest) / marker).unlink()
    return digest


@asynccontextmanager
async def _again(root: Path, store: MemoryStore, digest: str) -> AsyncIterator[CacheNodeUnderTest]:
    """Open the next fetcher, and yield it once it is warm."""
    async with open_cache_node(root, {"bucket": store}) as cache_node:
        await cache_node.configure(version=digest, eager=True)
        await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
        yield cache_node


async def test_a_restart_of_the_sidecar_looks_at_no_file(tmp_path: Path, store: MemoryStore) -> None:
    digest = await _digest(tmp_path, store, finished=True)
    tree = tmp_path / "datasets" / UID / "versions" / digest / "tree"
    (tree / "f0").unlink()  # a check of this file would fetch it again
    asked = len(store.gets)
    async with _again(tmp_path, store, digest):
        assert len(store.gets) == asked


async def test_a_whole_version_survives_a_reboot_without_fetching(tmp_path: Path, store: MemoryStore) -> None:
    digest = await _digest(tmp_path, store, finished=True)
    _reboot(tmp_path)
    asked = len(store.gets)
    async with _again(tmp_path, store, digest) as cache_node:
        assert (len(store.gets), cache_node.tree(digest)) == (asked, FILES)


@pytest.mark.parametrize("damage", [_truncate, _empty, Path.unlink])
async def test_a_file_that_lost_bytes_in_a_reboot_is_fetched_again(
    tmp_path: Path, store: MemoryStore, damage: Callable[[Path], None]
) -> None:
    digest = await _digest(tmp_path, store, finished=True)
    damage(tmp_path / "datasets" / UID / "versions" / digest / "tree" / "f2")
    _reboot(tmp_path)
    asked = len(store.gets)
    async with _again(tmp_path, store, digest) as cache_node:
        assert [get.path for get in store.gets[asked:]] == ["f2"]
        assert cache_node.tree(digest) == FILES


async def test_a_file_of_zeros_that_was_not_synced_is_found_out_by_its_md5(tmp_path: Path, store: MemoryStore) -> None:
    digest = await _digest(tmp_path, store, finished=False)
    _zero(tmp_path / "datasets" / UID / "versions" / digest / "tree" / "f2")
    _reboot(tmp_path)
    asked = len(store.gets)
    async with _again(tmp_path, store, digest) as cache_node:
        assert [get.path for get in store.gets[asked:]] == ["f2"]
        assert cache_node.tree(digest) == FILES


async def test_what_was_not_synced_and_cannot_be_proved_is_fetched_again(tmp_path: Path, store: MemoryStore) -> None:
    store.etag = lambda data: f"{len(data):032x}-2"
    digest = await _digest(tmp_path, store, finished=False)
    _reboot(tmp_path)
    asked = len(store.gets)
    async with _again(tmp_path, store, digest):
        assert len(store.gets) - asked == len(FILES)


async def test_a_whole_version_is_synced_after_it_was_marked(tmp_path: Path, store: MemoryStore) -> None:
    digest = await _digest(tmp_path, store, finished=True)
    folder = tmp_path / "datasets" / UID / "versions" / digest
    changed = max(path.stat().st_ctime_ns for path in (folder / "tree").iterdir())
    assert changed <= (folder / "complete").stat().st_mtime_ns <= (folder / "synced").stat().st_mtime_ns


def _arrive(version: VersionFolder, open_version: CachedVersion, path: str) -> None:
    """Let a complete file arrive, as a worker writes it."""
    version.finish(path)
    entry = open_version.manifest.find(path)
    assert entry is not None
    os.utime(version.folder / "tree" / path, ns=(entry.mtime_ns, entry.mtime_ns))
    open_version.mark_here(entry)


def test_what_came_after_the_last_sync_is_not_trusted_though_the_clock_was_put_back(tmp_path: Path) -> None:
    made = VersionFolder(tmp_path / "v", FILES)
    paths = VersionPaths(made.folder)
    before = load_version(paths)
    _arrive(made, before, "f0")
    before.sync()
    os.utime(paths.synced, (2**33, 2**33))  # from before the clock was set back
    _arrive(made, before, "f1")
    before.close()
    paths.doubtful.touch()
    after = load_version(paths)
    assert [path for path, entry in after.manifest.walk() if after.states[entry.ino] == State.HERE] == [b"f0"]
    after.close()


def test_a_marker_of_an_older_release_proves_nothing(tmp_path: Path) -> None:
    made = VersionFolder(tmp_path / "v", FILES)
    paths = VersionPaths(made.folder)
    before = load_version(paths)
    _arrive(made, before, "f0")
    before.close()
    for marker in (paths.doubtful, paths.complete, paths.synced):
        marker.touch()
    after = load_version(paths)
    assert (after.warm_files, after.complete) == (0, False)
    after.close()


@pytest.mark.expected_logs("out of service|CacheDiskFailed")
async def test_what_was_not_synced_is_proved_when_its_disk_was_out_of_service_and_is_back(
    tmp_path: Path, store: MemoryStore
) -> None:
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        digest = await cache_node.warm()
        await eventually((cache_node.folder(digest) / "synced").exists)
        (tmp_path / "probe").mkdir()
        await cache_node.node.look_after()
        (cache_node.folder(digest) / "synced").unlink()
        await cache_node.configure(listingId="1", version=digest, eager=True)  # a pass during which no sync is possible
        _zero(cache_node.folder(digest) / "tree" / "f2")  # the content of the disk after its shutdown
        (tmp_path / "probe").rmdir()
        cache_node.clock.ahead += 61
        asked = len(store.gets)
        await cache_node.node.look_after()
        await eventually(lambda: [get.path for get in store.gets[asked:]] == ["f2"])
        await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
        assert cache_node.tree(digest) == FILES


async def test_a_version_need_not_be_synced_to_be_whole(
    tmp_path: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = Event()
    monkeypatch.setattr(sync_point, "sync_file_system", lambda folder: release.wait(20))
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        digest = await cache_node.warm()
        assert not (cache_node.folder(digest) / "synced").exists()
        release.set()


@pytest.mark.expected_logs("input/output error")
async def test_a_version_whose_sync_fails_is_whole_no_more_until_one_succeeds(
    tmp_path: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_at_sync: list[bool] = []

    def fail_once(folder: Path) -> None:
        whole_at_sync.append((folder.parent / "complete").exists())
        if len(whole_at_sync) == 1:
            raise OSError(EIO, "input/output error")

    monkeypatch.setattr(sync_point, "sync_file_system", fail_once)
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        digest = await cache_node.warm()
        await eventually((cache_node.folder(digest) / "synced").exists)
        await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
    assert whole_at_sync[:2] == [True, False]


async def test_who_was_killed_between_marker_and_sync_is_not_believed_unseen(
    tmp_path: Path, store: MemoryStore
) -> None:
    digest = await _digest(tmp_path, store, finished=True)
    folder = tmp_path / "datasets" / UID / "versions" / digest
    (folder / "synced").unlink()
    (folder / "tree" / "f2").unlink()
    asked = len(store.gets)
    async with _again(tmp_path, store, digest) as cache_node:
        assert [get.path for get in store.gets[asked:]] == ["f2"]
        await eventually((cache_node.folder(digest) / "synced").exists)


def _opaque(data: bytes) -> str:
    """Make an ETag like that of a multipart object. It proves nothing about the bytes of a file on the disk."""
    return f"{len(data):032x}-2"


def _read_by_fuse(folder: Path, path: str, asked: list[str]) -> bytes | None:
    """Read a file like a FUSE server. Return None if it asks the fetcher for the file."""

    class Fetch:
        async def fetch(self, ino: int, offset: int, length: int, *, doubt: bool = False) -> ReadDone:
            asked.append(path)
            raise FsError(EIO, "this test has no fetcher")

    async def read() -> bytes | None:
        fs = DatasetFs(Manifest.open(folder / "manifest.sqlite"), folder, Fetch())
        entry = Manifest.open(folder / "manifest.sqlite").find(path)
        assert entry is not None
        with suppress(FsError):
            return await fs.read(entry.ino, 0, entry.size)
        return None

    return trio.run(read)


@pytest.mark.expected_logs("of the cache is damaged")
@pytest.mark.parametrize("damage", [_zero, _truncate, _empty])
@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("etag", [md5_etag, _opaque])
async def test_a_reader_right_after_a_power_cut_gets_the_right_bytes_or_none(
    tmp_path: Path, store: MemoryStore, damage: Callable[[Path], None], eager: bool, etag: Callable[[bytes], str]
) -> None:
    store.etag = etag
    digest = await _digest(tmp_path, store, finished=False)
    folder = tmp_path / "datasets" / UID / "versions" / digest
    damage(folder / "tree" / "f2")
    _reboot(tmp_path)
    store.fail(AccessDenied("the source is away"), times=10_000)  # prevents downloads
    asked: list[str] = []
    async with open_cache_node(tmp_path, {"bucket": store}) as node:
        seen = {path: await asyncio.to_thread(_read_by_fuse, folder, path, asked) for path in FILES}
        await node.configure(version=digest, eager=eager)
        await eventually(lambda: node.is_open(digest))
        seen |= {f"{path} later": await asyncio.to_thread(_read_by_fuse, folder, path, asked) for path in FILES}
        shown = node.tree(digest)  # the files in a native mount or an overlay
    assert all(data in (None, FILES[path.split()[0]]) for path, data in seen.items())
    assert shown.items() <= FILES.items()
    assert "f2" not in shown


def test_a_version_is_out_of_sight_from_the_open_of_its_disk_until_it_is_checked(tmp_path: Path) -> None:
    made = VersionFolder(tmp_path / "datasets" / UID / "versions" / "d1", FILES)
    made.finish_all()
    disk = CacheDisk(CachePaths(tmp_path), NO_FLOOR, time.monotonic)
    disk.open()
    assert not (made.folder / "tree").exists()


def test_a_fetcher_that_was_killed_during_the_check_leaves_the_rest_to_the_next_one(tmp_path: Path) -> None:
    made = VersionFolder(tmp_path / "datasets" / UID / "versions" / "d1", FILES)
    made.finish_all()
    paths = VersionPaths(made.folder)
    disk = CacheDisk(CachePaths(tmp_path), NO_FLOOR, time.monotonic)
    disk.open()
    release(paths)  # the last step before the marker is removed
    disk.open()
    after = load_version(paths)
    assert (after.warm_files, list((made.folder / "tree").iterdir())) == (0, [])
    after.close()


@pytest.mark.expected_logs("out of service|CacheDiskFailed")
async def test_a_program_that_has_a_doubtful_file_open_finds_its_end_when_the_disk_is_back(
    tmp_path: Path, store: MemoryStore
) -> None:
    store.etag = _opaque
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        digest = await cache_node.warm()
        tree = cache_node.folder(digest) / "tree"
        await eventually((cache_node.folder(digest) / "synced").exists)
        (cache_node.folder(digest) / "synced").unlink()
        with (tree / "f2").open("rb", buffering=0) as opened:
            (tmp_path / "probe").mkdir()
            await cache_node.node.look_after()
            (tmp_path / "probe").rmdir()
            _zero(tree / "f2")
            cache_node.clock.ahead += 61
            await cache_node.node.look_after()
            await cache_node.configure(listingId="1", version=digest, eager=True)
            await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
            assert opened.read() == b""
        assert cache_node.tree(digest) == FILES


def test_a_file_that_two_versions_share_is_emptied_only_when_neither_believes_it(tmp_path: Path) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_bytes(b"right")
    other.hardlink_to(file)
    delete_emptied(bytes(file))
    assert other.read_bytes() == b"right"
    with other.open("rb", buffering=0) as opened:
        delete_emptied(bytes(other))
        assert opened.read() == b""


async def test_a_power_cut_may_leave_the_note_of_links_empty(tmp_path: Path, store: MemoryStore) -> None:
    digest = await _digest(tmp_path, store, finished=True)
    (tmp_path / "datasets" / UID / "versions" / digest / "linked").write_text("")
    _reboot(tmp_path)
    async with _again(tmp_path, store, digest) as cache_node:
        assert cache_node.tree(digest) == FILES


async def test_a_mounted_version_that_is_not_the_current_one_is_checked_without_a_reader(
    tmp_path: Path, store: MemoryStore
) -> None:
    digest = await _digest(tmp_path, store, finished=True)
    _reboot(tmp_path)
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        await cache_node.configure(held=(digest,))
        await eventually(lambda: not (cache_node.folder(digest) / "doubtful").exists())
        assert cache_node.tree(digest) == FILES


@pytest.mark.expected_logs("input/output error")
async def test_what_a_failed_sync_lost_is_not_taken_for_synced_by_the_next_one(
    tmp_path: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.etag = _opaque
    failed: list[Path] = []

    def fail_once(folder: Path) -> None:
        if not failed:
            failed.append(folder)
            _zero(folder / "f2")  # like a kernel that drops pages after a failed write
            raise OSError(EIO, "input/output error")

    monkeypatch.setattr(sync_point, "sync_file_system", fail_once)
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        digest = await cache_node.warm()
        await eventually((cache_node.folder(digest) / "synced").exists)
        assert cache_node.tree(digest) == FILES


def test_a_check_gives_the_thread_back_between_steps(tmp_path: Path) -> None:
    made = VersionFolder(tmp_path / "v", {f"{n:05d}": b"x" for n in range(5000)})
    VersionPaths(made.folder).doubtful.touch()
    version = CachedVersion.unprepared(VersionPaths(made.folder))
    assert len(list(Preparation(version).run())) >= 4
    version.close()
