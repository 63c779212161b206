"""The client of S3 over plain HTTP, which signs and checks: a quarter of aiobotocore's CPU (docs/adr/0012, 0066)."""

import ssl
import time
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from types import TracebackType
from urllib.parse import quote

from stoker_sidecar.errors import InvalidSource, SourceError
from stoker_sidecar.store.base import Body
from stoker_sidecar.store.connection import ConnectionSettings, proxy_for
from stoker_sidecar.store.core.answers import MOST_BODY, check_size, check_xml
from stoker_sidecar.store.core.object_checksum import Checksum, stated_checksum
from stoker_sidecar.store.core.s3_requests import AccessKeys, BucketAddress, signed
from stoker_sidecar.store.core.s3_responses import (
    ExpectedRange,
    ResponseHead,
    check_etag,
    check_response,
    etag_may_be_md5,
    name_of,
    parse_error_response,
    response_error,
)
from stoker_sidecar.store.open_bodies import BodyPlace, OpenBodies
from stoker_sidecar.store.transport import HttpRequest, HttpResponse, HttpTransport, Peer
from stoker_sidecar.store.transport_loop import LoopTransport
from stoker_sidecar.store.transport_threads import ThreadResponse, ThreadTransport

# Bytes of an error response that are read: S3's XML is below 1 KiB, a proxy's page may be anything.
_ERROR_BYTES = 16 * 1024
# Bytes of a body above which threads take less CPU than the event loop, by measurement.
_LARGE = 512 * 1024

_STATE_CHECKSUM = {"x-amz-checksum-mode": "ENABLED"}

KeySource = Callable[[], Awaitable[AccessKeys | None]]  # asked before each request; None: not signed


class S3Getter:
    """A client for the GETs and HEADs of a bucket and its objects. It opens no connection before the first request."""

    def __init__(
        self,
        address: BucketAddress,
        keys: KeySource,
        settings: ConnectionSettings,
        tls: ssl.SSLContext,
    ) -> None:
        self._bucket = address.bucket
        self._address = address
        self._keys = keys
        peer = Peer(address, settings)
        self._small: HttpTransport
        self._large: HttpTransport
        if proxy_for(peer.url):
            self._small = self._large = _proxied(peer, tls)
        else:
            self._small, self._large = LoopTransport(peer, tls), ThreadTransport(peer, tls)
        self._open = OpenBodies()
        self._closed = False
        self._states_checksums = True  # until a GET fails because it asked for one

    def get_range(
        self,
        key: str,
        offset: int,
        length: int,
        *,
        if_match: str,
        version_id: str = "",
        whole: bool = False,
        ahead: int = 0,
    ) -> "_RangeRequest":
        """GET a range as ObjectStore.get_range does, by the object's whole key."""
        place = BodyPlace(key, if_match, version_id, offset)
        following = place._replace(offset=offset + length)
        return _RangeRequest(partial(self._begin, place, length, ahead, whole), partial(self._release, following))

    async def _begin(self, place: BodyPlace, length: int, ahead: int, whole: bool) -> tuple[HttpResponse, Body]:
        """Ask for a range, unless it comes already; the response is to be released."""
        response = self._open.take(place, length) or await self._ranged(place, length, ahead, whole=whole)
        try:
            headers = response.headers
            encryption = headers.get("x-amz-server-side-encryption", "")
            customer_algorithm = headers.get("x-amz-server-side-encryption-customer-algorithm", "")
            stated = stated_checksum(headers) if whole and response.status == HTTPStatus.OK else None
        except BaseException:
            response.release()
            raise
        return response, Body(response.stream, etag_may_be_md5(encryption, customer_algorithm), stated)

    async def checksum(self, key: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Ask for a checksum as ObjectStore.checksum does, by the object's whole key."""
        expected = ExpectedRange(name_of(self._bucket, key), 0, 0, if_match)
        response = await self._send("HEAD", expected, key, version_id, _STATE_CHECKSUM)
        try:
            if response.status != HTTPStatus.OK:
                raise await self._error(response, key)
            check_etag(expected.what, if_match, response.headers.get("etag", ""))
            return stated_checksum(response.headers)
        finally:
            response.release()

    async def ask_bucket(self, query: str) -> bytes:
        """GET the bucket itself with a canonical query; the body of an answer that is good. Raises SourceError."""
        address = self._address
        headers = await self._signed("GET", address.bucket_path, query, {})
        what = name_of(self._bucket, "")
        try:
            response = await self._small.send(
                HttpRequest("GET", f"{address.bucket_path}?{query}", headers, MOST_BODY, what)
            )
        except UnicodeError as error:  # of a name that is none, such as a part of more than 63 characters
            raise InvalidSource(f"{what} cannot be asked for: Invalid endpoint: {address.host}") from error
        try:
            body = await _whole(response, address.host)
        finally:
            response.release()
        if response.status != HTTPStatus.OK:
            raise self._refusal(response, body)
        return body

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        self._closed = True
        self._open.close()
        await self._small.aclose()
        await self._large.aclose()

    async def _ranged(self, place: BodyPlace, length: int, ahead: int, *, whole: bool) -> HttpResponse:
        """Ask for a range, and for what comes ``ahead`` where its body can be left for later; check that it comes."""
        if not isinstance(self._large, ThreadTransport) or length <= _LARGE:
            ahead = 0
        asked = length + ahead
        expected = ExpectedRange(name_of(self._bucket, place.key), place.offset, asked, place.etag)
        wanted = {} if whole else {"range": f"bytes={place.offset}-{place.offset + asked - 1}"}
        response = await self._get(expected, place, wanted, stating=whole, ahead=ahead)
        try:
            if response.status not in (200, 206):
                raise await self._error(response, place.key)
            check_response(expected, _head(response))
        except BaseException:
            response.release()
            raise
        return response

    def _release(self, following: BodyPlace, response: HttpResponse) -> None:
        """Keep a body that goes on with what follows; else close the connection, unless all of it was read."""
        if isinstance(response, ThreadResponse) and response.ahead and not self._closed:
            self._open.keep(following, response)
        else:
            response.release()

    async def _get(
        self, expected: ExpectedRange, place: BodyPlace, headers: dict[str, str], *, stating: bool, ahead: int
    ) -> HttpResponse:
        send = partial(self._send, "GET", expected, place.key, place.version_id, ahead=ahead)
        if not (stating and self._states_checksums):
            return await send(headers)
        response = await send(headers | _STATE_CHECKSUM)
        if response.status not in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_IMPLEMENTED):
            return response
        response.release()
        again = await send(headers)
        self._states_checksums = again.status != HTTPStatus.OK  # else it was that header that it did not take
        return again

    async def _send(
        self,
        method: str,
        expected: ExpectedRange,
        key: str,
        version_id: str,
        headers: dict[str, str],
        *,
        ahead: int = 0,
    ) -> HttpResponse:
        path = self._address.path(key)
        query = f"versionId={quote(version_id, safe='~')}" if version_id else ""
        if expected.etag:
            headers = headers | {"if-match": f'"{expected.etag}"'}
        headers = await self._signed(method, path, query, headers)
        target = f"{path}?{query}" if query else path
        # HEADs are for large files, so those connections are open already; and llhttp would wait for the body that
        # their Content-Length speaks of.
        transport = self._large if method == "HEAD" or expected.length > _LARGE else self._small
        return await transport.send(HttpRequest(method, target, headers, expected.length - ahead, expected.what, ahead))

    async def _signed(self, method: str, path: str, query: str, headers: dict[str, str]) -> dict[str, str]:
        if (keys := await self._keys()) is None:
            return headers
        return signed(method, self._address.host, path, query, headers, keys, self._address.region, time.time())

    async def _error(self, response: HttpResponse, key: str) -> SourceError:
        return self._refusal(response, await response.read(_ERROR_BYTES), key)

    def _refusal(self, response: HttpResponse, body: bytes, key: str = "") -> SourceError:
        region, retry_after = (response.headers.get(name, "") for name in ("x-amz-bucket-region", "retry-after"))
        return response_error(
            parse_error_response(response.status, body.decode(errors="replace"), region, retry_after), self._bucket, key
        )


class _RangeRequest:
    """A GET as an asynchronous context manager; one made of a generator takes 2 us more of each small file."""

    def __init__(
        self, begin: Callable[[], Awaitable[tuple[HttpResponse, Body]]], release: Callable[[HttpResponse], None]
    ) -> None:
        self._begin = begin
        self._release = release

    async def __aenter__(self) -> Body:
        self._response, body = await self._begin()
        return body

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release(self._response)


async def _whole(response: HttpResponse, host: str) -> bytes:
    """Return a body whole. Raises ServerError for one that is too large, or that could grow while it is parsed."""
    body = bytearray()

    def take(data: bytes | memoryview) -> None:
        check_size(host, len(body) + len(data))
        body.extend(data)

    await response.stream(take)
    check_xml(host, body)
    return bytes(body)


def _proxied(peer: Peer, tls: ssl.SSLContext) -> HttpTransport:
    """Make the transport through proxies; importing aiohttp blocks, and takes 9 MB that other workers do without."""
    from stoker_sidecar.store.transport_proxied import ProxiedTransport

    return ProxiedTransport(peer, tls)


def _head(response: HttpResponse) -> ResponseHead:
    headers = response.headers
    return ResponseHead(response.status, headers.get("content-range", ""), response.length, headers.get("etag", ""))
