"""The behavior of every object store, independent of its backend. Test modules subclass it and make the store."""

import hashlib
from abc import ABC, abstractmethod

import pytest

from stoker_sidecar.errors import DiskFull, ObjectGone, SourceChanged
from stoker_sidecar.store.base import ObjectStore
from stoker_sidecar.store.core.object_checksum import Checksum, new_digest
from stoker_sidecar.version.objects import ListedObject

CONTENT = {
    "a.bin": bytes(range(256)) * 40,
    "folder/b c+d%2F.txt": b"odd name",
    "folder/\u00fc/\u00e9.txt": b"not ASCII",
    "empty": b"",
}


class StoreUnderTest(ABC):
    """A store, and methods to change its backend."""

    store: ObjectStore

    @abstractmethod
    async def put(self, path: str, content: bytes) -> None:
        """Create or replace an object."""

    @abstractmethod
    async def delete(self, path: str) -> None:
        """Delete an object."""


async def listed(store: ObjectStore) -> dict[str, ListedObject]:
    """List a store. Return its objects by path."""
    return {found.path.decode(): found async for page in store.list() for found in page}


async def content(
    store: ObjectStore, path: str, offset: int, length: int, if_match: str, version_id: str = ""
) -> bytes:
    """Return the body of one GET."""
    async with store.get_range(path, offset, length, if_match=if_match, version_id=version_id) as body:
        received = bytearray()
        await body.stream(received.extend)
        return bytes(received)


def checksum_like(stated: Checksum, content: bytes) -> Checksum:
    """Compute the checksum of a content with the stated algorithm."""
    digest = new_digest(stated.algorithm)
    digest.update(content)
    return Checksum(stated.algorithm, digest.digest())


class ObjectContract:
    """The suite without long listings. It needs the fixture ``subject``, an empty StoreUnderTest."""

    @pytest.fixture
    async def filled(self, subject: StoreUnderTest) -> StoreUnderTest:
        for path, data in CONTENT.items():
            await subject.put(path, data)
        return subject

    async def test_a_listing_has_every_object_once_with_its_size(self, filled: StoreUnderTest) -> None:
        found = await listed(filled.store)
        assert {path: item.size for path, item in found.items()} == {path: len(data) for path, data in CONTENT.items()}

    async def test_nothing_lists_as_nothing(self, subject: StoreUnderTest) -> None:
        assert await listed(subject.store) == {}

    @pytest.mark.parametrize("path", [path for path, data in CONTENT.items() if data])
    async def test_a_whole_object_comes_as_it_is(self, filled: StoreUnderTest, path: str) -> None:
        item = (await listed(filled.store))[path]
        assert await content(filled.store, path, 0, item.size, item.etag) == CONTENT[path]

    async def test_a_range_is_exactly_those_bytes(self, filled: StoreUnderTest) -> None:
        item = (await listed(filled.store))["a.bin"]
        assert await content(filled.store, "a.bin", 1000, 501, item.etag) == CONTENT["a.bin"][1000:1501]

    async def test_an_object_that_was_replaced_is_refused(self, filled: StoreUnderTest) -> None:
        item = (await listed(filled.store))["a.bin"]
        await filled.put("a.bin", CONTENT["a.bin"][::-1])
        with pytest.raises(SourceChanged, match=r"a\.bin"):
            await content(filled.store, "a.bin", 0, item.size, item.etag)

    async def test_an_object_that_was_deleted_is_gone(self, filled: StoreUnderTest) -> None:
        item = (await listed(filled.store))["a.bin"]
        await filled.delete("a.bin")
        with pytest.raises(ObjectGone, match=r"a\.bin"):
            await content(filled.store, "a.bin", 0, item.size, item.etag)

    async def test_the_same_content_keeps_its_etag_and_another_gets_another(self, filled: StoreUnderTest) -> None:
        before = await listed(filled.store)
        await filled.put("empty", b"no longer")
        after = await listed(filled.store)
        assert after["a.bin"] == before["a.bin"]
        assert after["empty"].etag != before["empty"].etag

    async def test_an_etag_that_looks_like_an_md5_is_the_contents(self, filled: StoreUnderTest) -> None:
        found = await listed(filled.store)
        md5s = {path: hashlib.md5(data, usedforsecurity=False).hexdigest() for path, data in CONTENT.items()}
        assert all(item.etag == md5s[path] or "-" in item.etag for path, item in found.items())

    async def test_a_checksum_that_is_stated_is_the_contents(self, filled: StoreUnderTest) -> None:
        item = (await listed(filled.store))["a.bin"]
        stated = await filled.store.checksum("a.bin", if_match=item.etag)
        assert stated == (checksum_like(stated, CONTENT["a.bin"]) if stated is not None else None)
        async with filled.store.get_range("a.bin", 0, item.size, if_match=item.etag, whole=True) as body:
            await body.stream(lambda data: None)
            assert body.checksum == stated

    async def test_a_range_comes_without_a_checksum(self, filled: StoreUnderTest) -> None:
        async with filled.store.get_range("a.bin", 0, 100, if_match="") as body:
            await body.stream(lambda data: None)
            assert body.checksum is None

    async def test_what_the_taker_of_a_body_raises_is_raised(self, filled: StoreUnderTest) -> None:
        def full(data: bytes | memoryview) -> None:
            raise DiskFull("no room for it")

        async with filled.store.get_range("a.bin", 0, 100, if_match="") as body:
            with pytest.raises(DiskFull):
                await body.stream(full)

    @pytest.mark.parametrize("change", ["replaced", "deleted"])
    async def test_a_whole_object_that_is_another_is_refused_too(self, filled: StoreUnderTest, change: str) -> None:
        item = (await listed(filled.store))["a.bin"]
        await (filled.delete("a.bin") if change == "deleted" else filled.put("a.bin", CONTENT["a.bin"][::-1]))
        with pytest.raises(ObjectGone if change == "deleted" else SourceChanged, match=r"a\.bin"):
            async with filled.store.get_range("a.bin", 0, item.size, if_match=item.etag, whole=True) as body:
                await body.stream(lambda data: None)

    async def test_closing_twice_is_no_error(self, subject: StoreUnderTest) -> None:
        await subject.store.aclose()
        await subject.store.aclose()


class VersionedContract:
    """The suite of stores that keep versions. It needs the fixture ``subject``, as above."""

    @pytest.mark.parametrize("change", ["replaced", "deleted"])
    @pytest.mark.parametrize("path", [path for path, data in CONTENT.items() if data])
    async def test_a_version_that_was_listed_is_read_whatever_became_of_the_object(
        self, subject: StoreUnderTest, path: str, change: str
    ) -> None:
        await subject.put(path, CONTENT[path])
        item = (await listed(subject.store))[path]
        await (subject.delete(path) if change == "deleted" else subject.put(path, CONTENT[path][::-1]))
        assert await content(subject.store, path, 0, item.size, item.etag, item.version_id) == CONTENT[path]

    async def test_the_latest_versions_are_listed(self, subject: StoreUnderTest) -> None:
        for data in (b"old", b"new"):
            for path in ("a", "gone", "z"):
                await subject.put(path, data)
        before = await listed(subject.store)
        await subject.delete("gone")
        after = await listed(subject.store)
        assert set(after) == {"a", "z"}
        assert after["a"] == before["a"]
        assert after["a"].version_id
        assert await content(subject.store, "a", 0, 3, after["a"].etag) == b"new"

    async def test_another_content_has_another_version_id(self, subject: StoreUnderTest) -> None:
        ids = set()
        for data in (b"one", b"two"):
            await subject.put("a", data)
            ids.add((await listed(subject.store))["a"].version_id)
        assert len(ids) == 2


class ObjectStoreContract(ObjectContract):
    """The suite."""

    async def test_a_listing_of_more_than_a_page_is_whole(self, subject: StoreUnderTest) -> None:
        paths = {f"d{index % 7}/f{index:04}" for index in range(1100)}
        for path in paths:
            await subject.put(path, b"")
        assert (await listed(subject.store)).keys() == paths
