"""Sources of manifests: listings that end, and peers that may send only a manifest."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.errors import ManifestUnavailable, ServerError, SourceTooLarge
from stoker_sidecar.fetcher.datasets import given_manifests, manifests
from stoker_sidecar.fetcher.datasets.given_manifests import fetch_manifest
from stoker_sidecar.fetcher.datasets.manifests import ListingLimits, list_source
from stoker_sidecar.store.base import OnWait, no_matter
from stoker_sidecar.version.builder import ManifestBuilder
from stoker_sidecar.version.layout import DatasetPaths, VersionPaths
from stoker_sidecar.version.manifest import ManifestInfo
from stoker_sidecar.version.objects import ListedObject
from tests.fakes.object_store import MemoryStore
from tests.support.peers import peer_tls

SOURCE = Source(uri="s3://bucket/p")


class EndlessStore(MemoryStore):
    """A store whose listing never ends."""

    pages: int = 0
    size: int = 10

    async def list(self, waits: OnWait = no_matter) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield pages without end."""
        while True:
            self.pages += 1
            await asyncio.sleep(0)
            yield [ListedObject(b"%d/%d" % (self.pages, index), 1, 0, "e") for index in range(self.size)]


def _left(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def _list(store: MemoryStore, folder: Path, limits: ListingLimits) -> None:
    paths = DatasetPaths(folder)
    await list_source(store, SOURCE, paths, "1", lambda info: paths.version(info.digest), lambda count: None, limits)


async def test_a_listing_ends_at_so_many_objects(tmp_path: Path) -> None:
    store = EndlessStore()
    with pytest.raises(SourceTooLarge, match="s3://bucket/p has more than 1,000 objects: name a smaller part of it"):
        await _list(store, tmp_path, ListingLimits(objects=1000))
    assert store.pages == 101
    assert _left(tmp_path) == []


@pytest.mark.parametrize("store", [MemoryStore({"a": (b"1", 0)}), EndlessStore()], ids=["whole", "broken off"])
async def test_what_a_listing_took_of_memory_goes_back_to_the_kernel_once_its_table_is_closed(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[bool] = []
    table = tmp_path / "manifest.building.listing"
    monkeypatch.setattr(manifests, "give_back_memory", lambda: left.append(table.exists()))
    with suppress(SourceTooLarge):
        await _list(store, tmp_path, ListingLimits(objects=100))
    assert left == [False]


async def test_a_listing_of_empty_pages_ends(tmp_path: Path) -> None:
    store = EndlessStore()
    store.size = 0
    with pytest.raises(ServerError, match="is listed by empty pages"):
        await _list(store, tmp_path, ListingLimits(empty_pages=20))
    assert store.pages == 21


async def test_a_listing_ends_when_its_time_is_up(tmp_path: Path) -> None:
    with pytest.raises(SourceTooLarge, match="could not be listed within"):
        await _list(EndlessStore(), tmp_path, ListingLimits(seconds=0.05))


async def _serve(body: bytes, tls: ssl.SSLContext | None = None, **headers: str) -> TestServer:
    async def manifest(request: web.Request) -> web.Response:
        return web.Response(body=body, status=302 if headers else 200, headers=headers)

    app = web.Application()
    app.router.add_get("/m", manifest)
    server = TestServer(app, scheme="https" if tls else "http")
    await server.start_server(ssl=tls)
    return server


async def test_another_node_cannot_fill_the_disk_with_a_manifest(tmp_path: Path) -> None:
    server = await _serve(bytes(3_000_000))
    paths = DatasetPaths(tmp_path)
    url = str(server.make_url("/m"))
    with pytest.raises(ManifestUnavailable, match="it sends more than 2,000,000 bytes"):
        await fetch_manifest([url], paths, "0" * 64, lambda info: paths.version(info.digest), most=2_000_000)
    assert _left(tmp_path) == []
    await server.close()


async def test_another_node_sends_nobody_elsewhere(tmp_path: Path) -> None:
    server = await _serve(b"", Location="http://169.254.169.254/")
    paths = DatasetPaths(tmp_path)
    with pytest.raises(ManifestUnavailable, match="it answers 302"):
        await fetch_manifest([str(server.make_url("/m"))], paths, "0" * 64, lambda info: paths.version(info.digest))
    await server.close()


async def test_a_manifest_of_another_node_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[bool] = []
    monkeypatch.setattr(given_manifests, "give_back_memory", lambda: given_back.append(True))
    with ManifestBuilder(tmp_path / "sent") as builder:
        builder.add([ListedObject(b"a", 1, 2, "e")])
        info = builder.finish()
    server = await _serve((tmp_path / "sent").read_bytes())
    paths = DatasetPaths(tmp_path / "set")
    await fetch_manifest([str(server.make_url("/m"))], paths, info.digest, lambda info: paths.version(info.digest))
    assert (paths.version(info.digest).manifest.exists(), given_back) == (True, [True])
    await server.close()


async def test_a_node_is_asked_by_the_certificates_of_one_authority(tmp_path: Path) -> None:
    with ManifestBuilder(tmp_path / "sent") as builder:
        builder.add([ListedObject(b"a", 1, 2, "e")])
        info = builder.finish()
    known, stranger = peer_tls(), peer_tls()
    server = await _serve((tmp_path / "sent").read_bytes(), tls=known.server_context())
    paths = DatasetPaths(tmp_path / "set")
    urls = [str(server.make_url("/m"))]
    with pytest.raises(ManifestUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await fetch_manifest(urls, paths, info.digest, _never, tls=stranger.client_context())
    await fetch_manifest(urls, paths, info.digest, lambda info: paths.version(info.digest), tls=known.client_context())
    assert paths.version(info.digest).manifest.exists()
    await server.close()


async def test_a_manifest_of_another_node_with_other_etags_is_refused(tmp_path: Path) -> None:
    digests = []
    for name, etag in (("right", "e"), ("sent", "of bytes that it would give")):
        with ManifestBuilder(tmp_path / name) as builder:
            builder.add([ListedObject(b"a", 1, 2, etag)])
            digests.append(builder.finish().digest)
    server = await _serve((tmp_path / "sent").read_bytes())
    with pytest.raises(ManifestUnavailable, match=f"the manifest holds version {digests[1]} and not {digests[0]}"):
        await fetch_manifest([str(server.make_url("/m"))], DatasetPaths(tmp_path / "set"), digests[0], _never)
    await server.close()


def _never(info: ManifestInfo) -> VersionPaths:
    raise AssertionError(info)
