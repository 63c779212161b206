"""Objects that change, vanish or arrive damaged: readers get the right bytes, or an error that says so."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.errors import (
    AccessDenied,
    EndpointUnreachable,
    InvalidCredentials,
    ObjectGone,
    ServerError,
    SourceChanged,
    SourceError,
)
from stoker_sidecar.fetcher.datasets import manifests
from stoker_sidecar.fetcher.datasets.manifests import install_manifest
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.store.base import OnWait, no_matter
from stoker_sidecar.store.core.object_checksum import Checksum, new_digest
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.objects import ListedObject
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import LARGE, SMALL, CacheNodeUnderTest, fill, inode, open_cache_node
from tests.support.waiting import eventually


async def test_a_changed_object_is_an_error_and_never_a_mix(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, {"large": LARGE, "other": b"fine"})
    digest = await cache_node.list()
    ino = inode(cache_node, digest, "large")
    await cache_node.read(digest, ino, 0, 10)
    await eventually(lambda: len(cache_node.store.gets) == 2)
    cache_node.store.put("large", LARGE[::-1])
    with pytest.raises(SourceChanged):
        await cache_node.read(digest, ino, 2 * CHUNK, 5)
    assert await cache_node.read(digest, ino, 0, 10) == LARGE[:10]


async def test_warming_goes_past_a_changed_object_and_says_so(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    digest = await cache_node.list()
    cache_node.store.put("train/a", b"other")
    await cache_node.configure(listingId="1", version=digest, eager=True)
    status = await cache_node.reach(lambda s: s.phase is NodePhase.FAILED and s.warm_files == 3)
    assert status.error is not None
    assert (status.error.reason, status.error.temporary) == (Reason.SOURCE_CHANGED, False)
    assert "train/a" in status.error.message


async def test_a_deleted_object_is_gone_for_its_reader(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, SMALL)
    digest = await cache_node.list()
    cache_node.store.delete("train/a")
    with pytest.raises(ObjectGone):
        await cache_node.read(digest, inode(cache_node, digest, "train/a"), 0, 5)


@pytest.mark.expected_logs("the server failed")
async def test_warming_goes_on_by_itself_when_the_source_heals(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, {f"f{index:03}": b"x" * index for index in range(1, 40)})
    digest = await cache_node.list()
    cache_node.store.fail(ServerError("the server failed"), times=100)
    await cache_node.configure(listingId="1", version=digest, eager=True)
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM and s.error is None)  # the round clears the error


@pytest.mark.expected_logs("renew the Secret")
async def test_a_dataset_that_fails_does_not_touch_another(cache_node: CacheNodeUnderTest) -> None:
    cache_node.stores["broken"] = MemoryStore({"f": (b"x", 0)})
    fill(cache_node.store, SMALL)
    digest = await cache_node.list()
    cache_node.stores["broken"].fail(InvalidCredentials("renew the Secret"), times=100_000)
    other: dict[str, Any] = {
        "uid": "uid-2",
        "name": "broken",
        "source": {"uri": "s3://broken"},
        "listingId": "1",
        "priority": 9,
    }
    await cache_node.configure(**other)
    await cache_node.configure(listingId="1", version=digest, eager=True)
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
    status = await cache_node.reach(lambda s: s.error is not None, uid="uid-2")
    assert status.error is not None
    assert status.error.reason == Reason.INVALID_CREDENTIALS


async def test_a_spoilt_body_is_never_kept(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, {f"f{index}": b"content %d" % index for index in range(20)})
    digest = await cache_node.list()
    attempts: dict[str, int] = {}

    def spoil_first(path: str, data: bytes) -> bytes:
        attempts[path] = attempts.get(path, 0) + 1
        return data[:-1] + b"!" if attempts[path] == 1 and path != "f0" else data

    cache_node.store.mangle = spoil_first
    await cache_node.configure(listingId="1", version=digest, eager=True)
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
    assert cache_node.tree(digest) == {f"f{index}": b"content %d" % index for index in range(20)}


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"!"])
@pytest.mark.expected_logs("CorruptBody")
async def test_a_short_or_long_body_is_never_kept(cache_node: CacheNodeUnderTest, change: object) -> None:
    fill(cache_node.store, {"large": LARGE, "small": b"small"})
    digest = await cache_node.list()
    assert callable(change)
    cache_node.store.mangle = lambda path, data: change(data)
    await cache_node.configure(listingId="1", version=digest, eager=True)
    status = await cache_node.reach(lambda s: s.error is not None)
    assert status.error is not None
    assert (status.error.reason, cache_node.tree(digest)) == (Reason.CORRUPT_BODY, {})


@pytest.mark.expected_logs("CorruptBody")
async def test_a_spoilt_large_file_is_fetched_anew(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, {"large": LARGE, "a": b"proof that ETags are MD5s"})
    digest = await cache_node.list()
    spoilt: list[str] = []

    def spoil_once(path: str, data: bytes) -> bytes:
        if path == "large" and not spoilt:
            spoilt.append(path)
            return b"!" + data[1:]
        return data

    cache_node.store.mangle = spoil_once
    await cache_node.read(digest, inode(cache_node, digest, "a"), 0, 1)
    await cache_node.configure(listingId="1", version=digest, eager=True)
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM)
    assert cache_node.tree(digest)["large"] == LARGE


def _crc(content: bytes) -> Checksum:
    digest = new_digest("crc64nvme")
    digest.update(content)
    return Checksum("crc64nvme", digest.digest())


def _opaque(content: bytes) -> str:
    """Make an ETag like that of a multipart upload. It proves nothing about the bytes."""
    return f"{len(content):032x}-2"


@pytest.mark.parametrize("name", ["large", "small"])
@pytest.mark.expected_logs("CorruptBody")
async def test_a_checksum_that_the_source_states_finds_spoilt_bodies(cache_node: CacheNodeUnderTest, name: str) -> None:
    files = {"large": LARGE, "small": b"small"}
    fill(cache_node.store, files)
    cache_node.store.etag, cache_node.store.states = _opaque, _crc
    spoilt: list[str] = []

    def spoil_once(path: str, data: bytes) -> bytes:
        if path == name and not spoilt:
            spoilt.append(path)
            return b"!" + data[1:]
        return data

    cache_node.store.mangle = spoil_once
    digest = await cache_node.warm()
    assert (cache_node.tree(digest), spoilt) == (files, [name])


async def test_where_checksums_are_stated_no_md5_is_asked_for(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, {"large": LARGE, "small": b"small"})
    cache_node.store.etag = lambda content: "0" * 32  # looks like an MD5, but is not one
    cache_node.store.states = _crc
    await cache_node.warm()
    assert len([get for get in cache_node.store.gets if get.path == "small"]) == 1


@pytest.mark.expected_logs("CorruptBody")
async def test_what_is_never_as_its_source_states_it_is_never_kept(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, {"large": LARGE, "small": b"small"})
    cache_node.store.states = lambda content: Checksum("crc64nvme", bytes(8))
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=True)
    status = await cache_node.reach(lambda s: s.error is not None)
    assert status.error is not None
    assert (status.error.reason, cache_node.tree(digest)) == (Reason.CORRUPT_BODY, {})


@pytest.mark.parametrize("error", [AccessDenied("grant it"), ServerError("failed")])
async def test_a_source_that_does_not_tell_its_checksum_keeps_no_file_away(
    cache_node: CacheNodeUnderTest, error: SourceError
) -> None:
    fill(cache_node.store, {"large": LARGE})

    def refuse(content: bytes) -> Checksum:
        raise error

    cache_node.store.states = refuse
    digest = await cache_node.warm()
    assert cache_node.tree(digest) == {"large": LARGE}


async def test_a_listing_stops_when_another_one_is_wanted(cache_node: CacheNodeUnderTest) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    class StuckStore(MemoryStore):
        """A store that waits in the middle of a listing."""

        async def list(self, waits: OnWait = no_matter) -> AsyncIterator[Sequence[ListedObject]]:
            """Yield one page, and the next on request."""
            async for page in super().list():
                yield page
            reached.set()
            await go_on.wait()

    cache_node.stores["bucket"] = StuckStore({"wrong": (b"x", 0)})
    cache_node.stores["right"] = MemoryStore({"right": (b"x", 0)})
    await cache_node.configure(listingId="1")
    await reached.wait()
    await cache_node.configure(listingId="2", source={"uri": "s3://right/p"})
    status = await cache_node.reach(lambda s: s.listing is not None and s.listing.id == "2")
    assert status.listing is not None
    assert (status.listing.files, status.listing.error) == (1, None)
    go_on.set()


async def test_a_version_that_is_just_being_listed_is_not_dropped_when_another_one_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    fill(store, SMALL)
    async with open_cache_node(tmp_path, {"bucket": store}) as before:
        unwanted = await before.list("1")
        store.put("b", b"second")
        second = await before.list("2")
    store.put("c", b"third")
    installed, go_on = threading.Event(), threading.Event()

    def install(temporary: Path, version: VersionPaths) -> None:
        install_manifest(temporary, version)
        installed.set()
        go_on.wait(10)

    monkeypatch.setattr(manifests, "install_manifest", install)
    async with open_cache_node(tmp_path, {"bucket": store}) as node:
        await node.configure(listingId="3")
        await eventually(installed.is_set)
        await node.configure(listingId="3", version=second)
        await eventually(lambda: not node.folder(unwanted).exists())  # the second is open by now
        go_on.set()
        third = await node.list("3", version=second)
        await node.configure(listingId="3", version=third)
        await node.reach(lambda status: status.version == third and status.files > 0)


async def test_a_listing_that_waits_for_its_source_says_so_and_goes_on(cache_node: CacheNodeUnderTest) -> None:
    go_on = asyncio.Event()

    class AwayStore(MemoryStore):
        """A store with an outage in the middle of a listing."""

        async def list(self, waits: OnWait = no_matter) -> AsyncIterator[Sequence[ListedObject]]:
            """Yield one page, and the next on request."""
            yield [ListedObject(b"first", 1, 0, "e")]
            waits(EndpointUnreachable("the endpoint is away"))
            await go_on.wait()
            waits(None)
            yield [ListedObject(b"second", 1, 0, "e")]

    cache_node.stores["bucket"] = AwayStore()
    await cache_node.configure(listingId="1")
    status = await cache_node.reach(lambda s: s.listing is not None and s.listing.error is not None)
    assert status.listing is not None
    assert status.listing.error is not None
    assert (status.listing.error.temporary, status.phase) == (True, NodePhase.LISTING)
    sentence = r"the endpoint is away; the listing has waited since \d\d:\d\d:\d\d UTC and continues after 1 objects"
    assert re.fullmatch(sentence, status.listing.error.message)
    go_on.set()
    status = await cache_node.reach(lambda s: s.listing is not None and bool(s.listing.version))
    assert status.listing is not None
    assert (status.listing.files, status.listing.error) == (2, None)
