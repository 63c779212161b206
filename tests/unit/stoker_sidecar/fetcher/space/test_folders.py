"""A node with several cache folders: failures, deletions, and damaged files."""

import shutil
from pathlib import Path

import pytest

from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.errors import CacheDiskFailed
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.wire.config.folders import FolderSpec
from stoker_sidecar.wire.fetcher_protocol import Read
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import LARGE, SMALL, UID, content, fill, inode, open_cache_node
from tests.support.waiting import eventually

# Folders fail and are deleted during writes. Whether a write notices that depends on timing.
pytestmark = pytest.mark.expected_logs("CacheDiskFailed")


def _break(root: Path) -> None:
    """Make writes to the folder fail: a folder takes the place of its probe file."""
    (root / "probe").unlink(missing_ok=True)
    (root / "probe").mkdir()


def _mend(root: Path) -> None:
    (root / "probe").rmdir()


def _with_spare(folder: Path) -> tuple[Path, tuple[FolderSpec, ...]]:
    """Specify a disk, and memory as a fallback for a failed disk."""
    spare = folder / "spare"
    return spare, (FolderSpec(str(folder / "first")), FolderSpec(str(spare), memory=True))


def _trees(root: Path) -> dict[str, bytes]:
    """Return all complete files below a cache folder: content by path."""
    files = (path for path in root.glob("datasets/*/versions/*/tree/**/*") if path.is_file())
    return {str(path).partition("/tree/")[2]: path.read_bytes() for path in files}


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    fill(made, SMALL)
    return made


async def test_a_version_lies_whole_in_one_folder(tmp_path: Path, store: MemoryStore) -> None:
    first, second = FolderSpec(str(tmp_path / "first")), FolderSpec(str(tmp_path / "second"))
    async with open_cache_node(tmp_path, {"bucket": store}, folders=(first, second)) as cache_node:
        await cache_node.warm()
    assert [_trees(tmp_path / "first"), _trees(tmp_path / "second")] in ([SMALL, {}], [{}, SMALL])


async def test_memory_that_is_listed_first_is_preferred(tmp_path: Path, store: MemoryStore) -> None:
    disk = FolderSpec(str(tmp_path / "disk"))
    memory = FolderSpec(str(tmp_path / "memory"), memory=True)
    async with open_cache_node(tmp_path, {"bucket": store}, folders=(memory, disk)) as cache_node:
        await cache_node.warm()
    assert _trees(tmp_path / "memory") == SMALL


async def test_a_version_is_found_again_in_whichever_folder_it_is(tmp_path: Path, store: MemoryStore) -> None:
    first, second = FolderSpec(str(tmp_path / "first")), FolderSpec(str(tmp_path / "second"))
    async with open_cache_node(tmp_path, {"bucket": store}, folders=(second,)) as cache_node:
        await cache_node.warm()
    asked = len(store.gets)
    async with open_cache_node(tmp_path, {"bucket": store}, folders=(first, second)) as cache_node:
        await cache_node.warm()
    assert len(store.gets) == asked


async def test_a_dataset_starts_anew_elsewhere_when_its_folder_fails(tmp_path: Path, store: MemoryStore) -> None:
    spare, folders = _with_spare(tmp_path)
    async with open_cache_node(tmp_path / "first", {"bucket": store}, folders=folders) as cache_node:
        digest = await cache_node.warm()
        _break(tmp_path / "first")
        await cache_node.node.look_after()
        await eventually(lambda: _trees(spare) == SMALL)
        await cache_node.reach(lambda s: s.phase is NodePhase.WARM and s.version == digest)


async def test_a_reader_does_not_notice_that_the_folder_failed(tmp_path: Path, store: MemoryStore) -> None:
    spare, folders = _with_spare(tmp_path)
    async with open_cache_node(tmp_path / "first", {"bucket": store}, folders=folders) as cache_node:
        digest = await cache_node.list()
        await cache_node.configure(listingId="1", version=digest)
        ino = inode(cache_node, digest, "train/a")
        await cache_node.node.read(Read(UID, digest, inode(cache_node, digest, "train/b"), 0, 1))
        _break(tmp_path / "first")
        shutil.rmtree(cache_node.folder(digest) / "parts")
        answer = await cache_node.node.read(Read(UID, digest, ino, 0, 5))
        assert Path(answer.file).is_relative_to(spare)
        assert content(answer) == b"alpha"


async def test_a_folder_that_fails_is_said_and_so_is_its_return(tmp_path: Path, store: MemoryStore) -> None:
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        _break(tmp_path)
        await cache_node.node.look_after()
        (folder,) = cache_node.node.progress().folders
        assert folder["healthy"] is False
        assert str(tmp_path) in folder["message"]
        _mend(tmp_path)
        cache_node.clock.ahead += 61
        await cache_node.node.look_after()
        assert [notice.reason for notice in cache_node.node.progress().notices] == [
            Reason.CACHE_DISK_FAILED,
            Reason.HEALTHY,
        ]


async def test_the_only_folder_goes_on_serving_what_it_has(tmp_path: Path, store: MemoryStore) -> None:
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        digest = await cache_node.warm()
        _break(tmp_path)
        await cache_node.node.look_after()
        assert await cache_node.read(digest, inode(cache_node, digest, "train/a"), 0, 5) == b"alpha"


async def test_what_the_only_folder_cannot_take_is_an_error_at_once(tmp_path: Path, store: MemoryStore) -> None:
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        digest = await cache_node.list()
        await cache_node.configure(listingId="1", version=digest)
        ino = inode(cache_node, digest, "train/a")
        parts = cache_node.folder(digest) / "parts"
        await eventually(parts.exists)
        parts.rmdir()
        parts.write_bytes(b"in the way")
        with pytest.raises(CacheDiskFailed):
            await cache_node.node.read(Read(UID, digest, ino, 0, 5))


@pytest.mark.expected_logs("ManifestUnavailable")  # the version may be tried before the folder is checked
async def test_a_folder_that_was_deleted_is_filled_again_with_no_word_from_outside(
    tmp_path: Path, store: MemoryStore
) -> None:
    async with open_cache_node(tmp_path / "cache", {"bucket": store}) as cache_node:
        digest = await cache_node.warm()
        (tmp_path / "cache").rename(tmp_path / "gone")  # at once, during the sync of the version
        await cache_node.node.look_after()
        await eventually(lambda: _trees(tmp_path / "cache") == SMALL)
        await cache_node.reach(lambda s: s.phase is NodePhase.WARM and s.version == digest)


async def test_a_deleted_file_is_fetched_again_for_its_reader(tmp_path: Path, store: MemoryStore) -> None:
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        digest = await cache_node.warm()
        shutil.rmtree(cache_node.folder(digest) / "tree" / "train")
        ino = inode(cache_node, digest, "train/a")
        answer = await cache_node.node.read(Read(UID, digest, ino, 0, 5, doubt=True))
        assert content(answer) == b"alpha"


async def test_a_version_that_lost_a_file_is_not_complete_until_it_is_back(tmp_path: Path, store: MemoryStore) -> None:
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        digest = await cache_node.warm()
        (cache_node.folder(digest) / "tree/train/a").unlink()
        await cache_node.configure(listingId="1", version=digest, eager=True, paused=True)
        ino = inode(cache_node, digest, "train/a")
        await cache_node.node.read(Read(UID, digest, ino, 0, 5, doubt=True))
        await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
        assert cache_node.tree(digest) == SMALL


async def test_an_unfinished_large_file_whose_part_was_deleted_is_fetched_again(tmp_path: Path) -> None:
    store = MemoryStore()
    fill(store, {"large": LARGE})
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        digest = await cache_node.list()
        await cache_node.configure(listingId="1", version=digest)
        ino = inode(cache_node, digest, "large")
        await cache_node.node.read(Read(UID, digest, ino, CHUNK, 10))
        await eventually(lambda: cache_node.chunks_here(digest) == 1)
        for part in (cache_node.folder(digest) / "parts").iterdir():
            part.unlink()
        answer = await cache_node.node.read(Read(UID, digest, ino, CHUNK, 10, doubt=True))
        assert content(answer)[CHUNK : CHUNK + 10] == LARGE[CHUNK : CHUNK + 10]


async def test_a_new_version_opens_though_a_file_of_the_old_one_was_deleted(tmp_path: Path, store: MemoryStore) -> None:
    async with open_cache_node(tmp_path, {"bucket": store}) as cache_node:
        first = await cache_node.warm()
        (cache_node.folder(first) / "tree/train/a").unlink()
        store.put("new", b"a new file")
        second = await cache_node.warm("2", retain=[first])
        assert cache_node.tree(second) == SMALL | {"new": b"a new file"}
