"""Checksums stored by a real S3 server, with either client: stated for whole objects, and never required."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.errors import CorruptBody, ObjectGone, SourceChanged
from stoker_sidecar.store.base import ObjectStore, Retry
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.object_checksum import Checksum, new_digest
from stoker_sidecar.store.opening import open_store
from tests.support.fault_proxy import FLIPPED, FaultProxy, fault_proxy, refusal
from tests.support.s3 import CREDENTIALS, S3Server, put_in_parts

BODY = bytes(range(256)) * 40
PARTS = [bytes(5 * 1024 * 1024), b"the rest"]
ALGORITHMS = ("CRC64NVME", "CRC32C", "CRC32", "SHA256", "SHA1")


@pytest.fixture(scope="module")
def bucket(s3: S3Server) -> str:
    async def fill() -> str:
        name = await s3.bucket()
        async with s3.client() as client:
            for algorithm in ALGORITHMS:
                await client.put_object(Bucket=name, Key=algorithm, Body=BODY, ChecksumAlgorithm=algorithm)
            for kind in ("FULL_OBJECT", "COMPOSITE"):
                await put_in_parts(client, name, kind, PARTS, "CRC32", kind)
        return name

    return asyncio.run(fill())


@pytest.fixture
async def proxy(s3: S3Server) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(s3.endpoint) as running:
        yield running


@pytest.fixture(params=["lean", "boto"])
async def store(
    request: pytest.FixtureRequest, proxy: FaultProxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ObjectStore]:
    if request.param == "boto":  # used only for GETs from directory buckets, which no test server has
        monkeypatch.setattr("stoker_sidecar.store.buckets.s3.is_directory_bucket", lambda bucket: True)
    source = Source(uri=f"s3://{bucket}", endpoint=proxy.endpoint)
    opened = await open_store(source, CREDENTIALS, ConnectionSettings(), Retry(_at_once))
    yield opened
    await opened.aclose()


@pytest.fixture
async def etags(store: ObjectStore) -> dict[str, str]:
    """Return the listed ETags."""
    return {found.path.decode(): found.etag async for page in store.list() for found in page}


async def _at_once(seconds: float) -> None:
    return None


async def _get(store: ObjectStore, key: str, length: int = len(BODY), **options: Any) -> tuple[bytes, Checksum | None]:
    async with store.get_range(key, 0, length, if_match="", **options) as body:
        received = bytearray()
        await body.stream(received.extend)
        return bytes(received), body.checksum


def _of(algorithm: str, content: bytes) -> Checksum:
    digest = new_digest(algorithm.lower())
    digest.update(content)
    return Checksum(algorithm.lower(), digest.digest())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_a_whole_object_comes_with_its_checksum(store: ObjectStore, algorithm: str) -> None:
    assert await _get(store, algorithm, whole=True) == (BODY, _of(algorithm, BODY))
    assert await store.checksum(algorithm, if_match="") == _of(algorithm, BODY)


async def test_a_range_comes_without_one(store: ObjectStore) -> None:
    assert await _get(store, "CRC32", 100) == (BODY[:100], None)


async def test_what_was_put_in_parts_states_its_checksum_when_it_is_of_the_whole(store: ObjectStore) -> None:
    assert await store.checksum("FULL_OBJECT", if_match="") == _of("CRC32", b"".join(PARTS))
    assert await store.checksum("COMPOSITE", if_match="") is None


async def test_a_multipart_etag_is_a_checksum_once_the_size_of_the_parts_is_known(
    store: ObjectStore, etags: dict[str, str]
) -> None:
    content = b"".join(PARTS)
    proof = await store.multipart_checksum("FULL_OBJECT", len(content), if_match=etags["FULL_OBJECT"])
    assert proof is not None
    assert proof.part_size == len(PARTS[0])
    digest = proof.new_digest()
    digest.update(content)
    assert digest.digest() == proof.value


async def test_an_object_that_was_put_whole_has_no_multipart_checksum(
    store: ObjectStore, etags: dict[str, str]
) -> None:
    assert await store.multipart_checksum("CRC32", len(BODY), if_match=etags["CRC32"]) is None


async def test_the_parts_of_another_object_are_refused(store: ObjectStore) -> None:
    with pytest.raises(SourceChanged):
        await store.multipart_checksum("FULL_OBJECT", len(BODY), if_match=f"{'0' * 32}-2")


async def test_the_checksum_of_another_object_is_refused(store: ObjectStore) -> None:
    with pytest.raises(SourceChanged):
        await store.checksum("CRC32", if_match="0" * 32)
    with pytest.raises(ObjectGone):
        await store.checksum("gone", if_match="")


@pytest.mark.parametrize("store", ["lean"], indirect=True)
@pytest.mark.parametrize("status", [400, 501])
async def test_a_server_that_refuses_to_be_asked_is_asked_no_more(
    store: ObjectStore, proxy: FaultProxy, status: int
) -> None:
    proxy.inject(refusal(status, "NotImplemented"), times=1)
    assert await _get(store, "CRC32", whole=True) == (BODY, None)
    assert await _get(store, "CRC32", whole=True) == (BODY, None)
    assert len(proxy.asked) == 3


@pytest.mark.parametrize("store", ["boto"], indirect=True)
async def test_what_botocore_finds_spoilt_is_a_corrupt_body(store: ObjectStore, proxy: FaultProxy) -> None:
    proxy.inject(FLIPPED)
    with pytest.raises(CorruptBody, match="spoilt on the way"):
        await _get(store, "CRC32", whole=True)
