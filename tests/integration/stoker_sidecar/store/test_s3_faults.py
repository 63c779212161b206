"""S3 servers and networks that fail: each failure becomes the right error, in bounded time, and never wrong bytes."""

import asyncio
import gzip
import hashlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from stoker_api.datasets.dataset_source import AddressingStyle, Source
from stoker_sidecar.errors import (
    AccessDenied,
    CorruptBody,
    EndpointUnreachable,
    InvalidCredentials,
    InvalidSource,
    ObjectGone,
    ServerError,
    SourceChanged,
    SourceError,
    Throttled,
)
from stoker_sidecar.store.base import ObjectStore, Retry
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.opening import open_store
from stoker_sidecar.wire.credentials import Credentials
from tests.support.certificates import server_certificate
from tests.support.fault_proxy import (
    CLOSE,
    CUT,
    GARBAGE,
    HANG,
    OTHER_ETAG,
    OTHER_RANGE,
    RANGE_IGNORED,
    RESET,
    RESET_IN_BODY,
    SHORTENED,
    STALLED,
    Answer,
    Fault,
    FaultProxy,
    fault_proxy,
    refusal,
)
from tests.support.s3 import CREDENTIALS, S3Server, running_s3
from tests.support.store_contract import content, listed

BODY = bytes(range(256)) * 40
# Short, because a server that hangs costs a test as long. Other requests must not take longer on a busy machine.
SETTINGS = ConnectionSettings(connect_timeout=1.0, read_timeout=1.0)
LEAN, LARGE, PROXIED, BOTO = "lean", "large", "proxied", "boto"
_MALFORMED = b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>"


async def _no_wait(seconds: float) -> None:
    return None


async def _bucket(s3: S3Server, **options: Any) -> str:
    name = f"bucket-{uuid4().hex[:10]}"
    async with s3.client() as client:
        await client.create_bucket(Bucket=name)
        await client.put_object(Bucket=name, Key="k", **{"Body": BODY} | options)
    return name


@pytest.fixture(scope="module")
def bucket(s3: S3Server) -> str:
    return asyncio.run(_bucket(s3))


@pytest.fixture
async def proxy(s3: S3Server) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(s3.endpoint) as running:
        yield running


@pytest.fixture(params=[LEAN, LARGE, PROXIED, BOTO])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == BOTO:  # used only for GETs from directory buckets, which no test server has
        monkeypatch.setattr("stoker_sidecar.store.buckets.s3.is_directory_bucket", lambda bucket: True)
    if request.param == LARGE:  # bodies that bypass the parser, here small ones
        monkeypatch.setattr("stoker_sidecar.store.http.transport_loop.SMALL", 0)
    if request.param == PROXIED:  # the client with proxy support, here without a proxy
        monkeypatch.setattr("stoker_sidecar.store.buckets.s3_get.proxy_for", lambda url: "http://proxy")
    return str(request.param)


async def _open(source: Source, credentials: Credentials = CREDENTIALS) -> ObjectStore:
    return await open_store(source, credentials, SETTINGS, Retry(_no_wait))


@pytest.fixture
async def store(client: str, proxy: FaultProxy, bucket: str) -> AsyncIterator[ObjectStore]:
    opened = await _open(Source(uri=f"s3://{bucket}", endpoint=proxy.endpoint))
    yield opened
    await opened.aclose()


async def _get(store: ObjectStore, body: bytes = BODY) -> bytes:
    return await content(store, "k", 0, len(body), _etag(body))


def _etag(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


@pytest.mark.parametrize(
    ("fault", "kind", "temporary", "says"),
    [
        (refusal(500, "InternalError"), ServerError, True, "500"),
        (refusal(503), Throttled, True, "503"),
        (refusal(503, "SlowDown"), Throttled, True, "fewer requests"),
        (refusal(429), Throttled, True, "429"),
        (refusal(403, "RequestTimeTooSkewed"), InvalidCredentials, True, "clock"),
        (refusal(400, "ExpiredToken"), InvalidCredentials, True, "expired"),
        (refusal(403, "AccessDenied"), AccessDenied, False, "s3:GetObject"),
        (refusal(404, "NoSuchKey"), ObjectGone, False, "deleted"),
        (RESET, EndpointUnreachable, True, "does not answer"),
        (CLOSE, EndpointUnreachable, True, "does not answer"),
        (GARBAGE, EndpointUnreachable, True, "does not answer"),
        (HANG, EndpointUnreachable, True, "imeout"),
        (STALLED, EndpointUnreachable, True, "imeout"),
        (CUT, EndpointUnreachable, True, "broke off"),
        (RESET_IN_BODY, EndpointUnreachable, True, ""),
        (SHORTENED, CorruptBody, True, "10239 bytes"),
        (RANGE_IGNORED, CorruptBody, True, "10240"),
        (OTHER_RANGE, CorruptBody, True, "ignores Range"),
        (OTHER_ETAG, SourceChanged, False, "ETag"),
    ],
)
async def test_a_fault_becomes_the_error_that_names_it(
    store: ObjectStore, proxy: FaultProxy, fault: Fault, kind: type[SourceError], temporary: bool, says: str
) -> None:
    proxy.inject(fault)
    with pytest.raises(SourceError) as raised:
        await _get(store)
    assert (type(raised.value), raised.value.temporary) == (kind, temporary)
    assert says in raised.value.message


async def test_after_a_fault_the_same_store_goes_on(store: ObjectStore, proxy: FaultProxy) -> None:
    for fault in (RESET, GARBAGE, STALLED, refusal(503)):
        proxy.inject(fault)
        with pytest.raises(SourceError):
            await _get(store)
    proxy.heal()
    assert await _get(store) == BODY


async def test_the_pause_that_a_server_asks_for_is_told(store: ObjectStore, proxy: FaultProxy) -> None:
    proxy.inject(refusal(503, "SlowDown", retry_after="7"))
    with pytest.raises(Throttled) as raised:
        await _get(store)
    assert raised.value.retry_after == 7


@pytest.mark.parametrize("client", [LEAN, LARGE, PROXIED], indirect=True)
async def test_a_redirect_is_not_followed_but_names_the_region(store: ObjectStore, proxy: FaultProxy) -> None:
    proxy.inject(refusal(301, "PermanentRedirect", x_amz_bucket_region="eu-west-1", location="http://127.0.0.1:1/"))
    with pytest.raises(InvalidSource, match=r"region eu-west-1: set source\.region"):
        await _get(store)


@pytest.mark.parametrize("client", [LEAN], indirect=True)
@pytest.mark.parametrize(
    "fault",
    [refusal(301, "PermanentRedirect", x_amz_bucket_region="eu-west-1"), Fault(Answer(400, {}, _MALFORMED))],
    ids=["moved", "signed for another region"],
)
async def test_a_listing_is_refused_in_another_region_as_a_get_is(
    store: ObjectStore, proxy: FaultProxy, fault: Fault
) -> None:
    answers = iter([fault])  # a second request, with the other region, gets an answer
    proxy.fault = lambda path: next(answers, None)
    with pytest.raises(InvalidSource, match=r"region eu-west-1: set source\.region"):
        await listed(store)


@pytest.mark.parametrize("client", [LEAN, LARGE, PROXIED], indirect=True)
async def test_a_body_that_drips_for_ever_is_given_up(store: ObjectStore, proxy: FaultProxy) -> None:
    proxy.inject(Fault(pause=0.05))
    with pytest.raises(EndpointUnreachable, match="imeout"):
        await _get(store)


async def test_a_compressed_object_comes_as_it_is_stored(client: str, s3: S3Server) -> None:
    packed = gzip.compress(BODY)
    store = await _open(
        Source(uri=f"s3://{await _bucket(s3, Body=packed, ContentEncoding='gzip')}", endpoint=s3.endpoint)
    )
    assert await _get(store, packed) == packed
    await store.aclose()


async def test_a_reader_that_stops_in_the_middle_of_a_body_spoils_nothing(store: ObjectStore) -> None:
    async with store.get_range("k", 0, len(BODY), if_match=_etag(BODY)):
        pass
    assert await _get(store) == BODY


async def test_a_name_that_does_not_resolve_is_told(client: str) -> None:
    store = await _open(Source(uri="s3://bucket", endpoint="http://no-such-host.invalid"))
    with pytest.raises(EndpointUnreachable, match=r"no-such-host\.invalid"):
        await content(store, "k", 0, 10, "")
    await store.aclose()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    folder = tmp_path_factory.mktemp("tls")
    with running_s3(folder, server_certificate(folder)) as server:
        yield server


async def test_a_private_ca_is_trusted_when_the_secret_has_it(client: str, tls: S3Server) -> None:
    assert tls.certificate is not None
    source = Source(uri=f"s3://{await _bucket(tls)}", endpoint=tls.endpoint)
    store = await _open(source, replace(CREDENTIALS, ca_pem=tls.certificate.authority.read_text()))
    assert list(await listed(store)) == ["k"]
    assert await _get(store) == BODY
    await store.aclose()


async def test_a_server_by_another_ca_is_refused_with_what_to_do(client: str, tls: S3Server) -> None:
    store = await _open(Source(uri="s3://bucket", endpoint=tls.endpoint))
    with pytest.raises(EndpointUnreachable, match=r"ca\.crt") as raised:
        await content(store, "k", 0, 10, "")
    assert not raised.value.temporary
    await store.aclose()


@pytest.mark.asyncio(loop_factories=["asyncio"])  # libuv calls the resolver itself
async def test_virtual_host_style_finds_the_bucket_by_its_own_host(
    client: str, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = socket.getaddrinfo
    asked: list[object] = []

    def loopback(host: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(host)
        return resolve("127.0.0.1", *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", loopback)
    endpoint = s3.endpoint.replace("127.0.0.1", "localhost")
    store = await _open(Source(uri=f"s3://{bucket}", endpoint=endpoint, addressing_style=AddressingStyle.VIRTUAL))
    assert list(await listed(store)) == ["k"]
    assert await _get(store) == BODY
    assert set(asked) == {f"{bucket}.localhost"}
    await store.aclose()
