"""S3 with a real server: the contract by either client, and each way to be refused."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from stoker_api.datasets.dataset_source import AddressingStyle, Source
from stoker_api.names import Reason
from stoker_sidecar.errors import EndpointNotAllowed, EndpointUnreachable, InvalidCredentials, ObjectGone, SourceError
from stoker_sidecar.store.base import ObjectStore, Retry
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.opening import open_store
from stoker_sidecar.version.objects import SkipReason
from stoker_sidecar.wire.credentials import (
    AmbientCredentials,
    Credentials,
    StaticCredentials,
    UnusableCredentials,
    WebIdentityCredentials,
)
from tests.support.ports import free_ports
from tests.support.s3 import CREDENTIALS, S3Server
from tests.support.store_contract import ObjectContract, ObjectStoreContract, StoreUnderTest, content, listed

PREFIX = "set/one"


@pytest.fixture
async def bucket(s3: S3Server) -> str:
    return await s3.bucket()


async def _at_once(seconds: float) -> None:
    return None


async def _open(source: Source, credentials: Credentials = CREDENTIALS, sts: str | None = None) -> ObjectStore:
    settings = ConnectionSettings(connect_timeout=2, read_timeout=5, sts_endpoint=sts)
    return await open_store(source, credentials, settings, Retry(_at_once))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"])
async def test_the_nodes_own_addresses_are_not_asked(s3: S3Server, bucket: str, host: str) -> None:
    port = s3.endpoint.rpartition(":")[2]
    named = Source(uri=f"s3://{bucket}/", endpoint=s3.endpoint)
    source = named.model_copy(update={"endpoint": f"http://{host}:{port}"})  # in any form that the API accepts
    settings = ConnectionSettings(connect_timeout=2, read_timeout=5, endpoint_networks=())
    store = await open_store(source, CREDENTIALS, settings, Retry(_at_once))
    requests = [store.get_range("a", 0, length, if_match="") for length in (1, 2**20)]
    for request in requests:
        with pytest.raises(EndpointNotAllowed, match="an address of the node itself"):
            async with request:
                pass
    with pytest.raises(SourceError) as refused:
        await listed(store)
    assert refused.value.reason in (Reason.ENDPOINT_NOT_ALLOWED, Reason.ENDPOINT_UNREACHABLE)
    await store.aclose()
    assert s3.operations(bucket) == ["s3_CreateBucket"]


class _S3(StoreUnderTest):
    def __init__(self, store: ObjectStore, client: Any, bucket: str) -> None:
        self.store = store
        self._client = client
        self._bucket = bucket

    async def put(self, path: str, content: bytes) -> None:
        await self._client.put_object(Bucket=self._bucket, Key=f"{PREFIX}/{path}", Body=content)

    async def delete(self, path: str) -> None:
        await self._client.delete_object(Bucket=self._bucket, Key=f"{PREFIX}/{path}")


@pytest.fixture
async def subject(s3: S3Server, bucket: str) -> AsyncIterator[StoreUnderTest]:
    store = await _open(Source(uri=f"s3://{bucket}/{PREFIX}", endpoint=s3.endpoint))
    async with s3.client() as client:
        # Names that only start with the same letters are not below the prefix.
        await client.put_object(Bucket=bucket, Key=f"{PREFIX}-two/x", Body=b"x")
        yield _S3(store, client, bucket)
    await store.aclose()


class TestS3Store(ObjectStoreContract):
    """GETs by the lean client."""


class TestS3StoreLargeBodies(ObjectContract):
    """GETs as for large bodies, which bypass the parser."""

    @pytest.fixture(autouse=True)
    def large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stoker_sidecar.store.http.transport_loop.SMALL", 0)


class TestS3StoreByProxies(ObjectContract):
    """GETs by the client with proxy support, without a proxy."""

    @pytest.fixture(autouse=True)
    def proxied(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stoker_sidecar.store.buckets.s3_get.proxy_for", lambda url: "http://proxy")


class TestS3StoreByBoto(ObjectContract):
    """GETs by aiobotocore, as for directory buckets, which no test server has."""

    @pytest.fixture(autouse=True)
    def boto(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stoker_sidecar.store.buckets.s3.is_directory_bucket", lambda bucket: True)


async def _refusal(source: Source, credentials: Credentials = CREDENTIALS) -> SourceError:
    async def attempt() -> None:
        store = await _open(source, credentials)
        try:
            await listed(store)
        finally:
            await store.aclose()

    with pytest.raises(SourceError) as raised:
        await attempt()
    return raised.value


@pytest.mark.parametrize(
    ("credentials", "reason", "says"),
    [
        (StaticCredentials("nobody", "x"), Reason.INVALID_CREDENTIALS, "AWS_ACCESS_KEY_ID"),
        (replace(CREDENTIALS, secret_access_key="x"), Reason.INVALID_CREDENTIALS, "AWS_SECRET_ACCESS_KEY"),
        (replace(CREDENTIALS, ca_pem="no PEM"), Reason.INVALID_CREDENTIALS, "ca.crt"),
        (UnusableCredentials(Reason.SECRET_NOT_FOUND, "no Secret s"), Reason.SECRET_NOT_FOUND, "no Secret s"),
    ],
)
async def test_wrong_credentials_are_told_apart(
    s3: S3Server, bucket: str, credentials: Credentials, reason: Reason, says: str
) -> None:
    error = await _refusal(Source(uri=f"s3://{bucket}", endpoint=s3.endpoint), credentials)
    assert (error.reason, error.temporary) == (reason, False)
    assert says in error.message


async def test_anonymous_is_refused_by_a_closed_bucket(
    s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "none")
    error = await _refusal(Source(uri=f"s3://{bucket}", endpoint=s3.endpoint), AmbientCredentials())
    assert error.reason is Reason.ACCESS_DENIED
    assert "no credentials were found in the environment, ~/.aws, SSO or the node's role" in error.message


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("d/f 1.tar", "is an object, not a folder: write s3://{}/d/ and source.include 'f 1.tar'"),
        ("d/*.tar", "is a pattern, not a folder: write s3://{}/d/ and source.include '*.tar'"),
    ],
)
async def test_what_is_no_folder_is_answered_with_what_to_write(
    s3: S3Server, bucket: str, path: str, says: str
) -> None:
    async with s3.client() as client:
        await client.put_object(Bucket=bucket, Key="d/f 1.tar", Body=b"x")
    error = await _refusal(Source(uri=f"s3://{bucket}/{path}", endpoint=s3.endpoint))
    assert error.reason is Reason.EMPTY_SOURCE
    assert error.message == f"s3://{bucket}/{path} {says.format(bucket)}"


async def test_a_name_that_the_server_cannot_list_is_skipped(s3: S3Server, bucket: str) -> None:
    async with s3.client() as client:
        for key in ("p/a\x01b", "p/tab\tand\nline", "p/true \ufffd"):
            await client.put_object(Bucket=bucket, Key=key, Body=b"x")
    store = await _open(Source(uri=f"s3://{bucket}/p", endpoint=s3.endpoint))
    skipped = {path: one.skipped for path, one in (await listed(store)).items()}
    await store.aclose()
    assert skipped == {"a\ufffdb": SkipReason.UNKNOWN_NAME, "tab\tand\nline": None, "true \ufffd": None}


async def test_a_public_bucket_is_read_anonymously(s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "none")
    allow = {"Effect": "Allow", "Principal": "*", "Action": ["s3:ListBucket", "s3:GetObject"]}
    resources = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    async with s3.client() as client:
        await client.put_object(Bucket=bucket, Key="k", Body=b"public")
        await client.put_bucket_policy(
            Bucket=bucket, Policy=json.dumps({"Statement": [allow | {"Resource": resources}]})
        )
    store = await _open(Source(uri=f"s3://{bucket}", endpoint=s3.endpoint), AmbientCredentials())
    item = (await listed(store))["k"]
    assert await content(store, "k", 0, 6, item.etag) == b"public"
    await store.aclose()


async def test_the_nodes_own_credentials_are_used(s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", CREDENTIALS.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CREDENTIALS.secret_access_key)
    store = await _open(Source(uri=f"s3://{bucket}", endpoint=s3.endpoint), AmbientCredentials())
    assert await listed(store) == {}
    with pytest.raises(ObjectGone):  # the request has them: an unknown client would be refused
        await content(store, "k", 0, 1, "")
    await store.aclose()


async def test_a_bucket_that_is_not_there_is_named(s3: S3Server) -> None:
    error = await _refusal(Source(uri="s3://no-such-bucket/p", endpoint=s3.endpoint))
    assert error.reason is Reason.BUCKET_NOT_FOUND
    assert "'no-such-bucket'" in error.message


async def test_an_endpoint_that_does_not_answer_is_named_and_worth_a_retry() -> None:
    (port,) = free_ports(1)
    error = await _refusal(Source(uri="s3://bucket/p", endpoint=f"http://127.0.0.1:{port}"))
    assert isinstance(error, EndpointUnreachable)
    assert error.temporary
    assert f"127.0.0.1:{port}" in error.message


async def test_virtual_host_style_asks_the_buckets_own_host() -> None:
    (port,) = free_ports(1)
    endpoint = f"http://localhost:{port}"
    source = Source(uri="s3://bucket", endpoint=endpoint, addressing_style=AddressingStyle.VIRTUAL)
    assert f"bucket.localhost:{port}" in (await _refusal(source)).message


async def test_tls_to_a_server_without_it_is_unreachable(s3: S3Server, bucket: str) -> None:
    error = await _refusal(Source(uri=f"s3://{bucket}", endpoint=s3.endpoint.replace("http:", "https:")))
    assert (error.reason, "http://" in error.message) == (Reason.ENDPOINT_UNREACHABLE, True)


async def test_a_listing_pages_through_the_retry(bucket: str) -> None:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    (port,) = free_ports(1)
    source = Source(uri=f"s3://{bucket}", endpoint=f"http://127.0.0.1:{port}")
    store = await open_store(source, CREDENTIALS, ConnectionSettings(), Retry(note, uniform=lambda: 0.5))
    with pytest.raises(EndpointUnreachable):
        await listed(store)
    await store.aclose()
    assert waits == [0.1, 0.2, 0.4]


_ASSUMED = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>
<SessionToken></SessionToken><Expiration>{expiration}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""
_REFUSED = """<ErrorResponse><Error><Type>Sender</Type><Code>InvalidIdentityToken</Code><Message>no</Message></Error>
<RequestId>1</RequestId></ErrorResponse>"""


@asynccontextmanager
async def _sts(asked: list[dict[str, str]], lifetime: timedelta = timedelta(hours=1)) -> AsyncIterator[str]:
    """Run a token service that returns the S3 server's keys for the token "good". Yields its URL."""

    async def answer(request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        asked.append(form)
        if form["WebIdentityToken"] != "good":
            return web.Response(status=400, text=_REFUSED, content_type="text/xml")
        expiration = (datetime.now(UTC) + lifetime).isoformat()
        key, secret = CREDENTIALS.access_key_id, CREDENTIALS.secret_access_key
        return web.Response(
            text=_ASSUMED.format(key=key, secret=secret, expiration=expiration), content_type="text/xml"
        )

    application = web.Application()
    application.router.add_post("/", answer)
    async with TestServer(application, host="127.0.0.1") as server:
        yield str(server.make_url(""))


async def test_web_identity_trades_the_token_for_keys_once(s3: S3Server, bucket: str) -> None:
    asked: list[dict[str, str]] = []
    async with _sts(asked) as url:
        source = Source(uri=f"s3://{bucket}", endpoint=s3.endpoint)
        store = await _open(source, WebIdentityCredentials("arn:aws:iam::1:role/reader", "good"), url)
        assert await listed(store) == {}
        with pytest.raises(ObjectGone):
            await content(store, "k", 0, 1, "")
        await store.aclose()
    assert [form["RoleArn"] for form in asked] == ["arn:aws:iam::1:role/reader"]


async def test_keys_that_are_about_to_expire_are_renewed_before_a_get(s3: S3Server, bucket: str) -> None:
    asked: list[dict[str, str]] = []
    async with _sts(asked, timedelta(minutes=1)) as url:
        source = Source(uri=f"s3://{bucket}", endpoint=s3.endpoint)
        store = await _open(source, WebIdentityCredentials("arn:aws:iam::1:role/reader", "good"), url)
        before = len(asked)
        with pytest.raises(ObjectGone):
            await content(store, "k", 0, 1, "")
        await store.aclose()
    assert len(asked) > before


async def test_a_token_that_sts_does_not_trust_is_told(s3: S3Server, bucket: str) -> None:
    async with _sts([]) as url:
        source = Source(uri=f"s3://{bucket}", endpoint=s3.endpoint)
        with pytest.raises(InvalidCredentials, match="OIDC provider"):
            await _open(source, WebIdentityCredentials("arn:aws:iam::1:role/reader", "forged"), url)
