"""Ranged GETs over plain aiohttp: a quarter of the CPU that aiobotocore takes for a small object (docs/adr/0012)."""

import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from urllib.parse import quote

import aiohttp
from yarl import URL

from stoker_sidecar.core.answers import Answered, Asked, check_answer, check_etag, etag_may_be_md5
from stoker_sidecar.core.object_checksum import Checksum, stated_checksum
from stoker_sidecar.core.s3_address import BucketAddress
from stoker_sidecar.core.sigv4 import AccessKeys, signed
from stoker_sidecar.errors import SourceError
from stoker_sidecar.store.base import Body
from stoker_sidecar.store.connection import USER_AGENT, ConnectionSettings, proxy_for
from stoker_sidecar.store.pouring import in_chunks
from stoker_sidecar.store.refusals import broken_off, name_of, read_refusal, refused, unreachable, untrusted

# Bytes of a body that wait in memory before the socket is left alone: large ranges took 15 % less CPU than with aiohttp's 64 KiB.
_BUFFER = 256 * 1024
# Bytes of a refusal that are read: S3's XML is below 1 KiB, a proxy's page may be anything.
_REFUSAL_BYTES = 16 * 1024
# Bytes a second that a body must have on average beyond the read timeout, or it is given up: 64 readers that share a
# line of 10 Mbit/s still get more each, and a chunk of 8 MiB that drips cannot hold its readers for more than 9 minutes.
_SLOWEST = 16 * 1024

_STATE_CHECKSUM = {"x-amz-checksum-mode": "ENABLED"}

KeySource = Callable[[], Awaitable[AccessKeys | None]]  # asked before each request; None: not signed


class S3Getter:
    """For one bucket. Opens no connection before the first request."""

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
        self._settings = settings
        self._session = _session(address, settings, tls)
        self._states_checksums = True  # until a GET is refused for asking

    @asynccontextmanager
    async def get_range(
        self, key: str, offset: int, length: int, *, if_match: str, version_id: str = "", whole: bool = False
    ) -> AsyncIterator[Body]:
        """As ObjectStore.get_range, by the object's whole key."""
        asked = Asked(name_of(self._bucket, key), offset, length, if_match)
        wanted = {} if whole else {"range": f"bytes={offset}-{offset + length - 1}"}
        response = await self._get(asked, key, version_id, wanted, stating=whole)
        try:
            if response.status not in (200, 206):
                raise await self._refusal(response, asked.what, key)
            headers = response.headers
            check_answer(asked, _answered(response))
            encryption = headers.get("x-amz-server-side-encryption", "")
            customer_algorithm = headers.get("x-amz-server-side-encryption-customer-algorithm", "")
            stated = stated_checksum(headers) if whole and response.status == HTTPStatus.OK else None
            yield Body(
                in_chunks(self._chunks(response, asked.what)), etag_may_be_md5(encryption, customer_algorithm), stated
            )
        finally:
            response.release()  # closes the connection when the body was not read to its end

    async def checksum(self, key: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """As ObjectStore.checksum, by the object's whole key."""
        asked = Asked(name_of(self._bucket, key), 0, 0, if_match)
        response = await self._send("HEAD", asked, key, version_id, _STATE_CHECKSUM)
        try:
            if response.status != HTTPStatus.OK:
                raise await self._refusal(response, asked.what, key)
            check_etag(asked.what, if_match, response.headers.get("etag", ""))
            return stated_checksum(response.headers)
        finally:
            response.release()

    async def aclose(self) -> None:
        """Closes the connections. Idempotent."""
        await self._session.close()

    async def _get(
        self, asked: Asked, key: str, version_id: str, headers: dict[str, str], *, stating: bool
    ) -> aiohttp.ClientResponse:
        if not (stating and self._states_checksums):
            return await self._send("GET", asked, key, version_id, headers)
        response = await self._send("GET", asked, key, version_id, headers | _STATE_CHECKSUM)
        if response.status not in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_IMPLEMENTED):
            return response
        response.release()
        again = await self._send("GET", asked, key, version_id, headers)
        self._states_checksums = again.status != HTTPStatus.OK  # else it was that header that it did not take
        return again

    async def _send(
        self, method: str, asked: Asked, key: str, version_id: str, headers: dict[str, str]
    ) -> aiohttp.ClientResponse:
        address, path = self._address, self._address.path(key)
        query = f"versionId={quote(version_id, safe='~')}" if version_id else ""
        if asked.etag:
            headers = headers | {"if-match": f'"{asked.etag}"'}
        url = URL.build(scheme=address.scheme, authority=address.host, path=path, query_string=query, encoded=True)
        if (keys := await self._keys()) is not None:
            headers = signed(method, address.host, path, query, headers, keys, self._address.region, time.time())
        with _translated(self._address.endpoint, asked.what):
            return await self._session.request(
                method, url, headers=headers, timeout=_timeout(self._settings, asked.length), allow_redirects=False
            )

    async def _refusal(self, response: aiohttp.ClientResponse, what: str, key: str) -> SourceError:
        with _translated(self._address.endpoint, what):
            body = await response.content.read(_REFUSAL_BYTES)
        region, retry_after = (response.headers.get(name, "") for name in ("x-amz-bucket-region", "retry-after"))
        return refused(
            read_refusal(response.status, body.decode(errors="replace"), region, retry_after), self._bucket, key
        )

    async def _chunks(self, response: aiohttp.ClientResponse, what: str) -> AsyncIterator[bytes]:
        with _translated(self._address.endpoint, what):
            while data := await response.content.readany():
                yield data


def _session(address: BucketAddress, settings: ConnectionSettings, tls: ssl.SSLContext) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        # No limit here: whoever asks bounds the requests in flight, and one that waits for a connection waits twice.
        connector=aiohttp.TCPConnector(limit=0, ssl=tls),
        auto_decompress=False,  # the object's bytes as they are stored, whatever its Content-Encoding says
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
        skip_auto_headers=("Accept",),
        proxy=proxy_for(f"{address.scheme}://{address.host}"),
        read_bufsize=_BUFFER,
    )


def _timeout(settings: ConnectionSettings, length: int) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=settings.connect_timeout + settings.read_timeout + length / _SLOWEST,
        connect=3 * settings.connect_timeout,  # name, connection and TLS together
        sock_connect=settings.connect_timeout,
        sock_read=settings.read_timeout,
    )


def _answered(response: aiohttp.ClientResponse) -> Answered:
    headers = response.headers
    return Answered(response.status, headers.get("content-range", ""), response.content_length, headers.get("etag", ""))


@contextmanager
def _translated(endpoint: str, what: str) -> Iterator[None]:
    try:
        yield
    except (ssl.SSLError, aiohttp.ClientSSLError) as error:
        raise untrusted(endpoint, error) from error
    except aiohttp.ClientPayloadError as error:
        raise broken_off(endpoint, what) from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise unreachable(endpoint, error) from error
