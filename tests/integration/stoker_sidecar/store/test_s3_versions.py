"""Buckets that keep versions, on a real server: reads use the listed version, even after changes."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.errors import SourceChanged
from stoker_sidecar.store.base import ObjectStore, Retry
from stoker_sidecar.store.buckets import s3
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.opening import open_store
from stoker_sidecar.wire.credentials import AnonymousCredentials, Credentials
from tests.support.s3 import CREDENTIALS, S3Server, running_s3
from tests.support.store_contract import ObjectContract, StoreUnderTest, VersionedContract, content, listed

PREFIX = "set/one"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3(tmp_path_factory.mktemp("s3"), versions=True) as server:
        yield server


async def _at_once(seconds: float) -> None:
    return None


async def _open(server: S3Server, bucket: str, credentials: Credentials = CREDENTIALS) -> ObjectStore:
    source = Source(uri=f"s3://{bucket}/{PREFIX}", endpoint=server.endpoint)
    return await open_store(source, credentials, ConnectionSettings(connect_timeout=2, read_timeout=5), Retry(_at_once))


class _Versioned(StoreUnderTest):
    def __init__(self, store: ObjectStore, client: Any, bucket: str) -> None:
        self.store = store
        self.client = client
        self.bucket = bucket

    async def put(self, path: str, content: bytes) -> None:
        await self.client.put_object(Bucket=self.bucket, Key=f"{PREFIX}/{path}", Body=content)

    async def delete(self, path: str) -> None:
        await self.client.delete_object(Bucket=self.bucket, Key=f"{PREFIX}/{path}")

    async def allow_strangers(self, *actions: str) -> None:
        """Allow everyone these actions, and no more."""
        resources = [f"arn:aws:s3:::{self.bucket}", f"arn:aws:s3:::{self.bucket}/*"]
        allow = {"Effect": "Allow", "Principal": "*", "Action": [f"s3:{one}" for one in actions], "Resource": resources}
        await self.client.put_bucket_policy(Bucket=self.bucket, Policy=json.dumps({"Statement": [allow]}))


@pytest.fixture
async def subject(server: S3Server) -> AsyncIterator[_Versioned]:
    bucket = await server.bucket()
    async with server.client() as client:
        await client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        store = await _open(server, bucket)
        yield _Versioned(store, client, bucket)
        await store.aclose()


class TestVersionedBucket(ObjectContract, VersionedContract):
    """GETs by the lean client."""


class TestVersionedBucketLargeBodies(VersionedContract):
    """GETs as for large bodies, which bypass the parser."""

    @pytest.fixture(autouse=True)
    def large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stoker_sidecar.store.http.transport_loop.SMALL", 0)


class TestVersionedBucketByProxies(VersionedContract):
    """GETs by the client with proxy support, without a proxy."""

    @pytest.fixture(autouse=True)
    def proxied(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stoker_sidecar.store.buckets.s3_get.proxy_for", lambda url: "http://proxy")


async def test_a_listing_of_versions_goes_on_after_each_page(subject: _Versioned) -> None:
    names = [f"a b+c%2F/{number}" for number in range(120)] + [f"\u00e9/{number}" for number in range(230)]
    for number in range(3):
        await asyncio.gather(*(subject.put(name, b"%d" % number) for name in names))
    found = await listed(subject.store)
    assert found.keys() == set(names)
    assert all(item.version_id for item in found.values())


async def test_many_old_versions_are_given_up(subject: _Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "FREE_PAGES", 0)
    for number in range(3):
        for name in ("a", "b"):
            await subject.put(name, b"%d" % number)
    found = await listed(subject.store)
    assert [(path, item.version_id) for path, item in found.items()] == [("a", ""), ("b", "")]
    assert await content(subject.store, "a", 0, 1, found["a"].etag) == b"2"


LIST, VERSIONS = ("ListBucket", "GetObject"), ("GetBucketVersioning", "ListBucketVersions")


@pytest.mark.parametrize(
    ("actions", "has_ids"),
    [
        (LIST, False),
        ((*LIST, "GetBucketVersioning"), False),
        ((*LIST, *VERSIONS, "GetObjectVersion"), True),
    ],
)
async def test_ids_are_taken_only_where_they_may_be_used(
    server: S3Server, subject: _Versioned, actions: tuple[str, ...], has_ids: bool
) -> None:
    await subject.put("a", b"x")
    await subject.allow_strangers(*actions)
    store = await _open(server, subject.bucket, AnonymousCredentials())
    item = (await listed(store))["a"]
    assert bool(item.version_id) is has_ids
    assert await content(store, "a", 0, 1, item.etag, item.version_id) == b"x"
    await store.aclose()


async def test_without_an_id_a_replaced_object_is_refused(subject: _Versioned) -> None:
    await subject.put("a", b"old")
    item = (await listed(subject.store))["a"]
    await subject.put("a", b"new")
    with pytest.raises(SourceChanged):
        await content(subject.store, "a", 0, 3, item.etag)


async def test_a_bucket_that_never_kept_versions_is_listed_as_ever(server: S3Server) -> None:
    bucket = await server.bucket({f"{PREFIX}/a": b"x"})
    store = await _open(server, bucket)
    assert [item.version_id for item in (await listed(store)).values()] == [""]
    await store.aclose()
