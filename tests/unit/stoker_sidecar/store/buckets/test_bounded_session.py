"""Any endpoint is untrusted: its answers are bounded, and are XML as S3 servers write it."""

import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from botocore import UNSIGNED
from botocore.config import Config
from botocore.session import Session
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stoker_api.datasets.dataset_source import DatasetSource, Source
from stoker_api.datasets.endpoint import ENDPOINT_PATTERN, REGION_PATTERN
from stoker_sidecar.errors import ServerError, SourceError
from stoker_sidecar.store.buckets.s3_boto import S3Boto
from stoker_sidecar.store.buckets.s3_get import S3Getter
from stoker_sidecar.store.buckets.s3_list import S3Lister
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.s3_requests import AccessKeys, bucket_address
from stoker_sidecar.store.core.s3_responses import MOST_BODY
from stoker_sidecar.wire.credentials import StaticCredentials

_EMPTY = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"


def _getter(source: Source) -> S3Getter:
    async def keys() -> AccessKeys | None:
        return AccessKeys("key", "secret")

    return S3Getter(bucket_address(source, "bucket"), keys, ConnectionSettings(), ssl.create_default_context())


class Endpoint:
    """A server that answers every request with ``body``. One of the two listing clients queries it."""

    def __init__(self, *, by_botocore: bool) -> None:
        self.by_botocore = by_botocore
        self.body: bytes = b""
        self.status = 200
        self.server: TestServer | None = None

    async def start(self) -> None:
        """Start the server."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.server = TestServer(app)
        await self.server.start_server()

    async def page(self, token: str = "") -> None:
        """Request a page of a listing."""
        assert self.server is not None
        source = Source(uri="s3://bucket/p", endpoint=str(self.server.make_url("")).rstrip("/"))
        await self._ask(source, token)

    async def _ask(self, source: Source, token: str) -> None:
        if self.by_botocore:
            boto = await S3Boto.open(source, "bucket", StaticCredentials("key", "secret"), ConnectionSettings())
            async with aclosing(boto):
                await boto.page("p/", token)
        else:
            async with aclosing(_getter(source)) as getter:
                await S3Lister(getter.ask_bucket, "the endpoint", getter.has).page("p/", token)

    async def _answer(self, request: web.Request) -> web.Response:
        return web.Response(body=self.body, status=self.status, content_type="application/xml")


@pytest.fixture(params=[False, True], ids=["lean", "botocore"])
async def endpoint(request: pytest.FixtureRequest) -> AsyncIterator[Endpoint]:
    one = Endpoint(by_botocore=request.param)
    await one.start()
    yield one
    assert one.server is not None
    await one.server.close()


async def test_a_page_is_read(endpoint: Endpoint) -> None:
    endpoint.body = f"<?xml version='1.0' encoding='UTF-8'?>{_EMPTY}".encode()
    await endpoint.page()


@pytest.mark.parametrize("status", [200, 503])
async def test_a_body_without_end_is_not_read_to_its_end(endpoint: Endpoint, status: int) -> None:
    endpoint.body, endpoint.status = b" " * (MOST_BODY + 1), status
    with pytest.raises(ServerError, match="answers with more than 16 MiB") as raised:
        await endpoint.page()
    assert not raised.value.temporary


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(
    "body",
    [
        f'<!DOCTYPE a [<!ENTITY b "{"c" * 1000}">]>{_EMPTY}'.encode(),
        f'<?xml version="1.0" encoding="cp037"?>{_EMPTY}'.encode(),
        f"<?xml version='1.0' encoding = 'UTF-16'?>{_EMPTY}".encode(),
        _EMPTY.encode("utf-16"),
    ],
)
async def test_xml_that_grows_while_it_is_parsed_is_refused(endpoint: Endpoint, status: int, body: bytes) -> None:
    endpoint.body, endpoint.status = body, status
    with pytest.raises(ServerError, match="XML that no S3 server sends"):
        await endpoint.page()


@pytest.mark.parametrize(
    ("body", "temporary"),
    [(b"<Error><Code>InternalError</Code></Error>", True), (b"<html><p>Hello</p></html>", False), (b"hello", False)],
)
async def test_a_body_that_is_no_listing_is_an_error(body: bytes, temporary: bool) -> None:
    endpoint = Endpoint(by_botocore=False)
    await endpoint.start()
    endpoint.body = body
    with pytest.raises(ServerError, match="a page of the listing is no") as raised:
        await endpoint.page()
    assert raised.value.temporary is temporary
    assert endpoint.server is not None
    await endpoint.server.close()


async def test_a_nested_error_is_an_error_of_the_source(endpoint: Endpoint) -> None:
    endpoint.body, endpoint.status = b"<Error>" + b"<a>" * 5000 + b"</a>" * 5000 + b"</Error>", 400
    with pytest.raises(SourceError):
        await endpoint.page()


async def test_a_page_that_names_itself_as_the_next_ends_the_listing(endpoint: Endpoint) -> None:
    endpoint.body = (
        _EMPTY.replace("false", "true")
        .replace("</List", "<NextContinuationToken>again</NextContinuationToken></List")
        .encode()
    )
    await endpoint.page()
    with pytest.raises(ServerError, match="names the page that it just gave"):
        await endpoint.page("again")


@pytest.mark.parametrize("url", ["http://a_b:9000", "http://-a:9000", f"http://{'a' * 64}"])
async def test_an_invalid_endpoint_is_an_error(url: str) -> None:
    async with aclosing(_getter(Source(uri="s3://bucket/p", endpoint=url))) as getter:
        with pytest.raises(SourceError, match=r"does not answer|cannot be asked for: Invalid endpoint"):
            await S3Lister(getter.ask_bucket, url, getter.has).page("p/", "")


@pytest.mark.parametrize("url", ["http://a_b:9000", "http://-a:9000", f"http://{'a' * 64}"])
async def test_an_invalid_endpoint_is_an_error_of_botocore(url: str) -> None:
    boto = await S3Boto.open(
        Source(uri="s3://bucket/p", endpoint=url), "bucket", StaticCredentials("key", "secret"), ConnectionSettings()
    )
    with pytest.raises(SourceError, match="cannot be asked for: Invalid endpoint"):
        await boto.page("p/", "")
    await boto.aclose()


_SESSION = Session()


@settings(max_examples=15)
@given(
    st.from_regex(ENDPOINT_PATTERN.replace("[[]", r"\["), fullmatch=True),
    st.from_regex(REGION_PATTERN, fullmatch=True),
    st.sampled_from(["Auto", "Path", "Virtual"]),
)
def test_botocore_accepts_each_valid_source(endpoint: str, region: str, style: str) -> None:
    wire = {"uri": "s3://bucket/p", "endpoint": endpoint, "region": region, "addressingStyle": style}
    try:
        source = DatasetSource.model_validate(wire)
    except ValidationError:
        return
    client = _SESSION.create_client(
        "s3", region_name=source.region, endpoint_url=source.endpoint, config=Config(signature_version=UNSIGNED)
    )
    assert client.meta.region_name == region
