"""What is believed of a cache folder after the machine was started anew, and after the sidecar alone was."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from errno import EIO
from pathlib import Path
from threading import Event

import pytest

from stoker_api.nodecache import NodePhase
from stoker_sidecar.fetcher import cached_version as version
from stoker_sidecar.fetcher.cached_version import CachedVersion, State
from stoker_sidecar.version.layout import VersionPaths
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, open_cache_node
from tests.support.versions import VersionFolder
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
    """Overwrite the file with zeros; size and date stay, as on a file system that lost the bytes."""
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
    """Leave a version whose files are all there, and return its digest.

    Unless it is ``finished``, the power went before it was said to be whole, or synced.
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
    (tree / "f0").unlink()  # so that whoever looks would fetch it
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
    """Have a whole file arrive, as a worker brings it."""
    version.finish(path)
    entry = open_version.manifest.find(path)
    assert entry is not None
    os.utime(version.folder / "tree" / path, ns=(entry.mtime_ns, entry.mtime_ns))
    open_version.mark_here(entry)


def test_what_came_after_the_last_sync_is_not_trusted_though_the_clock_was_put_back(tmp_path: Path) -> None:
    made = VersionFolder(tmp_path / "v", FILES)
    paths = VersionPaths(made.folder)
    before = CachedVersion.load(paths)
    _arrive(made, before, "f0")
    before.sync()
    os.utime(paths.synced, (2**33, 2**33))  # from before the clock was put back
    _arrive(made, before, "f1")
    before.close()
    paths.doubtful.touch()
    after = CachedVersion.load(paths)
    assert [path for path, entry in after.manifest.walk() if after.states[entry.ino] == State.HERE] == [b"f0"]
    after.close()


def test_a_marker_of_an_older_release_proves_nothing(tmp_path: Path) -> None:
    made = VersionFolder(tmp_path / "v", FILES)
    paths = VersionPaths(made.folder)
    before = CachedVersion.load(paths)
    _arrive(made, before, "f0")
    before.close()
    for marker in (paths.doubtful, paths.complete, paths.synced):
        marker.touch()
    after = CachedVersion.load(paths)
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
        await cache_node.configure(listingId="1", version=digest, eager=True)  # a pass, in which nothing may be synced
        _zero(cache_node.folder(digest) / "tree" / "f2")  # as the disk had it when it shut down
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
    monkeypatch.setattr(version, "sync_file_system", lambda folder: release.wait(20))
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

    monkeypatch.setattr(version, "sync_file_system", fail_once)
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
