"""The store in memory and the local folder keep the contract. tests/integration tests S3."""

import os
from itertools import count
from pathlib import Path

import pytest

from stoker_sidecar.errors import AccessDenied, FolderNotFound, SourceChanged
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.store.folders.local import LocalStore
from tests.fakes.object_store import MemoryStore
from tests.support.store_contract import (
    ObjectStoreContract,
    StoreUnderTest,
    VersionedContract,
    checksum_like,
    content,
    listed,
)


class _Memory(StoreUnderTest):
    def __init__(self) -> None:
        self.store = self.memory = MemoryStore()

    async def put(self, path: str, content: bytes) -> None:
        self.memory.put(path, content)

    async def delete(self, path: str) -> None:
        self.memory.delete(path)


def _crc32(content: bytes) -> Checksum:
    return checksum_like(Checksum("crc32", b""), content)


class _Local(StoreUnderTest):
    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = LocalStore(root, [str(root)])
        self._ages = count(1_700_000_000)

    async def put(self, path: str, content: bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        age = next(self._ages)
        os.utime(target, (age, age))

    async def delete(self, path: str) -> None:
        (self.root / path).unlink()


class TestMemoryStore(ObjectStoreContract):
    @pytest.fixture
    def subject(self) -> StoreUnderTest:
        return _Memory()


class TestMemoryStoreThatStatesChecksums(ObjectStoreContract):
    @pytest.fixture
    def subject(self) -> StoreUnderTest:
        memory = _Memory()
        memory.memory.states = _crc32
        return memory


class TestMemoryStoreThatKeepsVersions(ObjectStoreContract, VersionedContract):
    @pytest.fixture
    def subject(self) -> StoreUnderTest:
        memory = _Memory()
        memory.memory.versions = {}
        return memory


class TestLocalStore(ObjectStoreContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> StoreUnderTest:
        return _Local(tmp_path)


async def test_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(FolderNotFound, match="this node has no folder"):
        await listed(LocalStore(tmp_path / "none", [str(tmp_path)]))


async def test_an_empty_folder_is_listed_as_a_marker(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    assert (await listed(LocalStore(tmp_path, [str(tmp_path)]))).keys() == {"d/e/"}


async def test_a_link_that_leads_out_is_refused_at_the_listing(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"of another team")
    root = tmp_path / "root"
    root.mkdir()
    (root / "loot").symlink_to(tmp_path / "secret")
    with pytest.raises(AccessDenied, match="loot is reached by a symbolic link that leads out"):
        await listed(LocalStore(root, [str(root)]))


async def test_a_link_that_leads_to_memory_of_a_process_is_refused(tmp_path: Path) -> None:
    memory = os.memfd_create("credentials")
    os.write(memory, b"of another team")
    (tmp_path / "loot").symlink_to(f"/proc/{os.getpid()}/fd/{memory}")
    try:
        with pytest.raises(AccessDenied):
            await listed(LocalStore(tmp_path, [str(tmp_path)]))
    finally:
        os.close(memory)


async def test_a_file_that_became_a_link_out_after_the_listing_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"of another team")
    root = tmp_path / "root"
    root.mkdir()
    (root / "f").symlink_to(tmp_path / "secret")
    with pytest.raises(AccessDenied):
        await content(LocalStore(root, [str(root)]), "f", 0, 6, "")


async def test_a_folder_above_that_became_a_link_out_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "f").write_bytes(b"of another team")
    root = tmp_path / "root"
    root.mkdir()
    (root / "d").symlink_to(tmp_path / "other")
    with pytest.raises(AccessDenied):
        await content(LocalStore(root, [str(root)]), "d/f", 0, 6, "")


async def test_a_link_to_a_file_beneath_another_allowed_folder_is_followed(tmp_path: Path) -> None:
    for name in ("blobs", "set"):
        (tmp_path / name).mkdir()
    (tmp_path / "blobs" / "x").write_bytes(b"x")
    (tmp_path / "set" / "link").symlink_to(tmp_path / "blobs" / "x")
    store = LocalStore(tmp_path / "set", [str(tmp_path / "set"), str(tmp_path / "blobs")])
    item = (await listed(store))["link"]
    assert await content(store, "link", 0, 1, item.etag) == b"x"


async def test_names_that_are_not_utf8_are_listed_raw(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).write_bytes(b"x")
    assert [item.path async for page in LocalStore(tmp_path, [str(tmp_path)]).list() for item in page] == [b"\xff"]


async def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 3_000_000)
    store = LocalStore(tmp_path, [str(tmp_path)])
    item = (await listed(store))["f"]
    async with store.get_range("f", 0, item.size, if_match=item.etag) as body:
        with pytest.raises(SourceChanged):
            await body.stream(lambda data: os.utime(tmp_path / "f", (1, 1)))


async def test_a_queued_fault_is_raised_once() -> None:
    store = MemoryStore({"a": (b"x", 0)})
    store.fail(AccessDenied("no"))
    with pytest.raises(AccessDenied):
        await content(store, "a", 0, 1, "")
    assert await content(store, "a", 0, 1, "") == b"x"
