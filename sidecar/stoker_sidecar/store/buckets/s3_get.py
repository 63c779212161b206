"""A lean S3 client that signs requests and checks responses with a quarter of aiobotocore's CPU (docs/adr/0022)."""

import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from types import TracebackType
from urllib.parse import quote

from stoker_sidecar.errors import (
    AccessDenied,
    InvalidCredentials,
    InvalidSource,
    ObjectGone,
    SourceChanged,
    SourceError,
)
from stoker_sidecar.store.base import Body
from stoker_sidecar.store.connection import ConnectionSettings, proxy_for
from stoker_sidecar.store.core.object_checksum import FIRST_PART, Checksum, multipart_checksum, stated_checksum
from stoker_sidecar.store.core.s3_requests import BucketAddress, KeySource, RenewKeys, signed, with_present_keys
from stoker_sidecar.store.core.s3_responses import (
    MOST_BODY,
    ExpectedRange,
    ResponseHead,
    check_etag,
    check_response,
    check_size,
    check_xml,
    etag_may_be_md5,
    name_of,
    parse_error_response,
    response_error,
    without_credentials,
)
from stoker_sidecar.store.http.transport import HttpRequest, HttpResponse, HttpTransport, Peer
from stoker_sidecar.store.http.transport_loop import LoopTransport

# Most bytes to read of an error response. S3's XML is below 1 KiB; a proxy's page may have any size.
_ERROR_BYTES = 16 * 1024

_STATE_CHECKSUM = {"x-amz-checksum-mode": "ENABLED"}


class S3Getter:
    """A client for the GETs and HEADs of a bucket and its objects. It opens no connection before the first request.

    ``looked``: the node was searched for keys. If it has none, a refusal says where the search was.
    """

    def __init__(
        self,
        address: BucketAddress,
        keys: KeySource,
        settings: ConnectionSettings,
        tls: ssl.SSLContext,
        renew: RenewKeys | None = None,
        *,
        looked: bool = False,
    ) -> None:
        """Make a client. ``renew``: requests new keys after a refusal; None for keys that never change."""
        self._looked = looked
        self._unsigned = False  # whether the last request was unsigned
        self._bucket = address.bucket
        self._address = address
        self._keys = keys
        self._renew = renew
        peer = Peer(address, settings)
        self._transport = _proxied(peer, tls) if proxy_for(peer.url) else LoopTransport(peer, tls)
        self._states_checksums = True  # False after a GET failed because it requested one

    def get_range(
        self, key: str, offset: int, length: int, *, if_match: str, version_id: str = "", whole: bool = False
    ) -> "_RangeRequest":
        """GET a range as ObjectStore.get_range does, by the object's whole key."""
        expected = ExpectedRange(name_of(self._bucket, key), offset, length, if_match)
        return _RangeRequest(partial(self._begin, key, expected, version_id, whole=whole))

    async def _begin(
        self, key: str, expected: ExpectedRange, version_id: str, *, whole: bool
    ) -> tuple[HttpResponse, Body]:
        """Send a GET; the caller releases the response."""
        ask: Callable[[], Awaitable[HttpResponse]] = partial(self._ranged, key, expected, version_id, whole=whole)
        response = await with_present_keys(ask, self._keys, self._renew)
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
        return stated_checksum(await self._headers_of(key, if_match, version_id, _STATE_CHECKSUM))

    async def multipart_checksum(self, key: str, size: int, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Ask for the first part's size as ObjectStore.multipart_checksum does, by the object's whole key."""
        return multipart_checksum(if_match, size, await self._headers_of(key, if_match, version_id, {}, FIRST_PART))

    async def has(self, key: str, etag: str, version_id: str) -> bool | None:
        """Return whether the bucket has this object with this ETag; None if the server refuses. Sends one HEAD.

        Raises SourceError for temporary errors.
        """
        try:
            await self._headers_of(key, etag, version_id, {})
        except (ObjectGone, SourceChanged):
            return False
        except SourceError as error:
            if error.temporary:
                raise
            return None
        return True

    async def ask_bucket(self, query: str) -> bytes:
        """GET the bucket itself with a canonical query, and return the body of the response. Raises SourceError."""
        return await with_present_keys(partial(self._ask_bucket, query), self._keys, self._renew)

    async def _ask_bucket(self, query: str) -> bytes:
        address = self._address
        headers = await self._signed("GET", address.bucket_path, query, {})
        what = name_of(self._bucket, "")
        try:
            response = await self._transport.send(
                HttpRequest("GET", f"{address.bucket_path}?{query}", headers, MOST_BODY, what)
            )
        except UnicodeError as error:  # an invalid host name, such as one with a part of more than 63 characters
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
        await self._transport.aclose()

    async def _headers_of(
        self, key: str, if_match: str, version_id: str, headers: dict[str, str], query: str = ""
    ) -> Mapping[str, str]:
        """Send a HEAD and return the headers of its response. A refused HEAD has no body, so no error code."""
        ask = partial(self._head_of, key, if_match, version_id, headers, query)
        return await with_present_keys(ask, self._keys, self._renew, (InvalidCredentials, AccessDenied))

    async def _head_of(
        self, key: str, if_match: str, version_id: str, headers: dict[str, str], query: str = ""
    ) -> Mapping[str, str]:
        """Send a HEAD and return the headers of its response. ``query``: canonical, without the version's."""
        expected = ExpectedRange(name_of(self._bucket, key), 0, 0, if_match)
        response = await self._send("HEAD", expected, key, version_id, headers, query)
        try:
            if response.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
                raise await self._error(response, key)
            check_etag(expected.what, if_match, response.headers.get("etag", ""))
            return response.headers
        finally:
            response.release()

    async def _ranged(self, key: str, expected: ExpectedRange, version_id: str, *, whole: bool) -> HttpResponse:
        """Send a GET and check the head of its response."""
        response = await self._get(key, expected, version_id, whole=whole)
        try:
            if response.status not in (200, 206):
                raise await self._error(response, key)
            check_response(expected, _head(response))
        except BaseException:
            response.release()
            raise
        return response

    async def _get(self, key: str, expected: ExpectedRange, version_id: str, *, whole: bool) -> HttpResponse:
        send = partial(self._send, "GET", expected, key, version_id)
        if not whole:
            return await send({"range": f"bytes={expected.offset}-{expected.offset + expected.length - 1}"})
        if not self._states_checksums:
            return await send({})
        response = await send(_STATE_CHECKSUM)
        if response.status not in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_IMPLEMENTED):
            return response
        response.release()
        again = await send({})
        self._states_checksums = again.status != HTTPStatus.OK  # on success, the server does not support that header
        return again

    async def _send(
        self, method: str, expected: ExpectedRange, key: str, version_id: str, headers: dict[str, str], query: str = ""
    ) -> HttpResponse:
        path = self._address.path(key)
        version = f"versionId={quote(version_id, safe='~')}" if version_id else ""
        query = "&".join(filter(None, (query, version)))  # sorted by name, as the signature requires
        if expected.etag:
            headers = headers | {"if-match": f'"{expected.etag}"'}
        headers = await self._signed(method, path, query, headers)
        target = f"{path}?{query}" if query else path
        return await self._transport.send(HttpRequest(method, target, headers, expected.length, expected.what))

    async def _signed(self, method: str, path: str, query: str, headers: dict[str, str]) -> dict[str, str]:
        keys = await self._keys()
        self._unsigned = keys is None
        if keys is None:
            return headers
        return signed(method, self._address.host, path, query, headers, keys, self._address.region, time.time())

    async def _error(self, response: HttpResponse, key: str) -> SourceError:
        return self._refusal(response, await response.read(_ERROR_BYTES), key)

    def _refusal(self, response: HttpResponse, body: bytes, key: str = "") -> SourceError:
        region, retry_after = (response.headers.get(name, "") for name in ("x-amz-bucket-region", "retry-after"))
        parsed = parse_error_response(response.status, body.decode(errors="replace"), region, retry_after)
        error = response_error(parsed, self._bucket, key)
        return without_credentials(error) if self._looked and self._unsigned else error


class _RangeRequest:
    """A GET as an asynchronous context manager. One from a generator takes 2 us more for each small file."""

    def __init__(self, begin: Callable[[], Awaitable[tuple[HttpResponse, Body]]]) -> None:
        self._begin = begin

    async def __aenter__(self) -> Body:
        self._response, body = await self._begin()
        return body

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._response.release()


async def _whole(response: HttpResponse, host: str) -> bytes:
    """Return a whole body. Raises ServerError if it is too large or could expand when it is parsed."""
    body = bytearray()

    def take(data: bytes | memoryview) -> None:
        check_size(host, len(body) + len(data))
        body.extend(data)

    await response.stream(take)
    check_xml(host, body)
    return bytes(body)


def _proxied(peer: Peer, tls: ssl.SSLContext) -> HttpTransport:
    """Make the transport through proxies. The import of aiohttp blocks and takes 9 MB that other workers save."""
    from stoker_sidecar.store.http.transport_proxied import ProxiedTransport

    return ProxiedTransport(peer, tls)


def _head(response: HttpResponse) -> ResponseHead:
    headers = response.headers
    return ResponseHead(response.status, headers.get("content-range", ""), response.length, headers.get("etag", ""))
