"""An S3 folder. It uses the lean client, except for directory buckets and for credentials without plain keys."""

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self

from stoker_api.backoff import BackoffPolicy
from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.errors import (
    AccessDenied,
    EmptySource,
    InvalidSource,
    ObjectGone,
    ServerError,
    SourceChanged,
    Throttled,
)
from stoker_sidecar.store.base import Body, OnWait, Retry, no_matter
from stoker_sidecar.store.buckets.s3_get import S3Getter
from stoker_sidecar.store.buckets.s3_list import Page, S3Lister
from stoker_sidecar.store.connection import ConnectionSettings, tls_context
from stoker_sidecar.store.core.location import S3Location, named_instead
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.store.core.s3_requests import (
    AccessKeys,
    BucketAddress,
    bucket_address,
    environment_keys,
    is_directory_bucket,
)
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.objects import ListedObject
from stoker_sidecar.wire.credentials import AmbientCredentials, AnonymousCredentials, Credentials, StaticCredentials

if TYPE_CHECKING:
    from stoker_sidecar.store.buckets.s3_boto import S3Boto

AskPage = Callable[[str, str], Awaitable[Page]]  # for a prefix, and a page's token

_log = logging.getLogger(__name__)
# A listing of versions includes all old ones. Its limit is this number of pages plus this multiple of the pages for the
# objects alone. Beyond the limit, the listing restarts without version ids.
FREE_PAGES, MOST_PAGES = 100, 4
PAGE = 1000  # objects
# For a listing that has begun: seconds to wait for an unavailable server, and the pauses between two requests.
PATIENCE, _OUTAGE = 1800.0, BackoffPolicy(base=0.2, cap=15.0)
# Before the first page: seconds to wait for a server that answers but is overloaded. A wrong address must fail soon.
BUSY_PATIENCE, _BUSY = 60.0, (Throttled, ServerError)


class _NoVersionIdsError(Exception):
    """The bucket keeps versions, but its objects must be listed without version ids."""


class S3Store:
    """An ObjectStore over a prefix of an S3 bucket, made by ``connect``.

    It has one client with its connections, and a second client for credentials without plain keys.
    """

    def __init__(
        self,
        location: S3Location,
        getter: "S3Getter | S3Boto",
        lister: "S3Lister | S3Boto",
        boto: "_LazyBoto",
        retry: Retry,
        hint: str = "",
    ) -> None:
        self._location = location
        self._hint = hint  # advice if the bucket refuses anonymous requests
        self._getter = getter
        self._lister = lister
        self._boto = boto
        self._retry = retry

    @classmethod
    async def connect(
        cls, source: Source, location: S3Location, credentials: Credentials, settings: ConnectionSettings, retry: Retry
    ) -> Self:
        """Make a store. Only web identity opens a connection at once, to STS. Raises SourceError."""
        boto = _LazyBoto(source, location.bucket, credentials, settings)
        tls = await in_thread(tls_context, credentials, settings.ca_bundle)
        hint = credentials.hint if isinstance(credentials, AnonymousCredentials) else ""
        if is_directory_bucket(location.bucket):
            client = await boto.opened()
            return cls(location, client, client, boto, retry, hint)
        address = bucket_address(source, location.bucket)
        getter = await _getter(address, credentials, boto, settings, tls)
        return cls(location, getter, S3Lister(getter.ask_bucket, address.endpoint, getter.has), boto, retry, hint)

    async def list(self, waits: OnWait = no_matter) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield pages of up to 1,000 objects, with their version ids if the bucket keeps versions.

        If version ids are unavailable or too expensive, it restarts without them and yields earlier objects again.
        Raises EmptySource with advice if the source names an object or a pattern.
        """
        empty = True
        async with aclosing(self._listed(waits)) as pages:
            async for page in pages:
                empty = empty and not page
                yield page
        if empty and self._location.prefix:
            await self._explain_empty()

    async def _explain_empty(self) -> None:
        """Raise EmptySource if the source names an object, the start of keys, or a pattern instead of a folder."""
        lister, path = self._lister, self._location.prefix.rstrip("/")
        keys: Sequence[ListedObject] = ()
        if isinstance(lister, S3Lister):
            with suppress(AccessDenied):  # no permission outside of the prefix
                keys = (await self._retry(partial(lister.page, path, "")))[0]()
        found = [path + one.path.decode(errors="replace") for one in keys]
        if sentence := named_instead(f"s3://{self._location.bucket}/", path, found):
            raise EmptySource(sentence)

    async def _listed(self, waits: OnWait) -> AsyncGenerator[Sequence[ListedObject], None]:
        lister = self._lister
        if isinstance(lister, S3Lister) and await self._keeps_versions(lister, waits):
            try:
                async with aclosing(self._versions(lister, waits)) as pages:
                    async for page in pages:
                        yield page
            except _NoVersionIdsError as error:
                _log.info("%s is listed without version ids: %s", self._location.bucket, error)
            else:
                return
        async with aclosing(self._pages(lister.page, waits)) as pages:
            async for page in pages:
                yield page

    async def _keeps_versions(self, lister: S3Lister, waits: OnWait) -> bool:
        try:
            return await self._first(lister.keeps_versions, waits)
        except (AccessDenied, ServerError) as error:
            if error.temporary:
                raise
            return False  # many identities lack the permission, and many servers do not support the request

    async def _versions(self, lister: S3Lister, waits: OnWait) -> AsyncGenerator[Sequence[ListedObject], None]:
        """Yield pages with version ids. Raises _NoVersionIdsError if version ids do not work."""
        pages, objects, tried = 0, 0, False
        try:
            async with aclosing(self._pages(lister.versions_page, waits)) as found:
                async for page in found:
                    if not tried and (filled := next((one for one in page if one.size), None)) is not None:
                        await self._try_version(filled)
                        tried = True
                    pages, objects = pages + 1, objects + len(page)
                    if pages > FREE_PAGES + MOST_PAGES * objects // PAGE:
                        raise _NoVersionIdsError(f"{pages} pages have the latest versions of {objects} objects only")
                    yield page
        except (AccessDenied, ServerError) as error:
            if error.temporary:
                raise
            raise _NoVersionIdsError(error.message) from error

    async def _try_version(self, found: ListedObject) -> None:
        """Read a byte of one version by its id, since that needs a separate permission (s3:GetObjectVersion)."""

        async def read() -> None:
            key = self._location.prefix + found.path.decode()
            version = found.version_id
            async with self._getter.get_range(key, 0, 1, if_match=found.etag, version_id=version) as body:
                await body.stream(lambda data: None)

        try:
            await self._retry(read)
        except (SourceChanged, ObjectGone, InvalidSource):
            pass  # it changed after the page, or it is archived
        except UnicodeDecodeError as error:
            raise _NoVersionIdsError("one of its keys is not UTF-8") from error

    async def _pages(self, ask: AskPage, waits: OnWait) -> AsyncGenerator[Sequence[ListedObject], None]:
        """Yield all pages. Request the next page before one is parsed, so that the server prepares it in parallel.

        Raises ServerError for a repeated page, since each object is in one page.
        """
        asked: asyncio.Task[Page] | None = asyncio.create_task(self._page(ask, "", waits))
        seen: set[int] = set()
        try:
            while asked is not None:
                read, token = await asked
                asked = asyncio.create_task(self._page(ask, token, waits)) if token else None
                await asyncio.sleep(0)  # the request goes out first
                page = read()
                self._check_new(page, seen)
                yield page
        finally:
            if asked is not None:
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)

    def get_range(
        self, path: str, offset: int, length: int, *, if_match: str, version_id: str = "", whole: bool = False
    ) -> AbstractAsyncContextManager[Body]:
        """Send one GetObject with If-Match (or versionId), and with Range unless it is for the whole object."""
        key = self._location.prefix + path
        return self._getter.get_range(key, offset, length, if_match=if_match, version_id=version_id, whole=whole)

    async def checksum(self, path: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Send one HeadObject, since S3's responses to ranged GETs have no checksum."""
        return await self._getter.checksum(self._location.prefix + path, if_match=if_match, version_id=version_id)

    async def multipart_checksum(self, path: str, size: int, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Send one HeadObject for the first part."""
        key = self._location.prefix + path
        return await self._getter.multipart_checksum(key, size, if_match=if_match, version_id=version_id)

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        await self._getter.aclose()
        await self._boto.aclose()

    def _check_new(self, page: Sequence[ListedObject], seen: set[int]) -> None:
        """Raise ServerError for a repeated page. It keeps a hash of each page's ends, about 70 bytes per page."""
        if not page:
            return
        ends = hash((page[0].path, page[-1].path, len(page)))
        if ends in seen:
            raise ServerError(
                f"{self._location.bucket} lists a page of objects twice, so its listing never ends: "
                "check source.endpoint",
                temporary=False,
            )
        seen.add(ends)

    @property
    def _first(self) -> Retry:
        """The retries before the first page."""
        return replace(self._retry, patience=BUSY_PATIENCE, patient=_BUSY, backoff=_OUTAGE)

    async def _page(self, ask: AskPage, token: str, waits: OnWait) -> Page:
        # Keep the listed pages during an outage. Before the first page there are none to keep.
        retry = replace(self._retry, patience=PATIENCE, backoff=_OUTAGE) if token else self._first
        try:
            return await retry(partial(ask, self._location.prefix, token), waits)
        except AccessDenied as error:
            if not self._hint:
                raise
            raise AccessDenied(f"{error.message}; {self._hint}") from error


class _LazyBoto:
    """The S3Boto of a bucket, opened at its first use.

    aiobotocore takes 25 MB and a quarter of a second of CPU. A process with plain keys does not need it.
    """

    def __init__(self, source: Source, bucket: str, credentials: Credentials, settings: ConnectionSettings) -> None:
        self._wanted = source, bucket, credentials, settings
        self._boto: S3Boto | None = None

    async def opened(self) -> "S3Boto":
        """Return the client; always the same one. Raises SourceError."""
        if self._boto is None:
            self._boto = await (await in_thread(_s3_boto)).open(*self._wanted)
        return self._boto

    async def aclose(self) -> None:
        """Close the client if it was opened. Idempotent."""
        if self._boto is not None:
            await self._boto.aclose()


def _s3_boto() -> "type[S3Boto]":
    """Return the class S3Boto; importing aiobotocore blocks."""
    from stoker_sidecar.store.buckets.s3_boto import S3Boto

    return S3Boto


async def _getter(
    address: BucketAddress,
    credentials: Credentials,
    boto: _LazyBoto,
    settings: ConnectionSettings,
    tls: ssl.SSLContext,
) -> S3Getter:
    keys = _plain_keys(credentials)
    if keys is None:
        client = await boto.opened()
        looked = isinstance(credentials, AmbientCredentials)
        return S3Getter(address, client.keys, settings, tls, client.renew, looked=looked)

    async def same() -> AccessKeys:
        return keys

    return S3Getter(address, same, settings, tls)


def _plain_keys(credentials: Credentials) -> AccessKeys | None:
    if isinstance(credentials, StaticCredentials):
        return AccessKeys(credentials.access_key_id, credentials.secret_access_key, credentials.session_token)
    return environment_keys(os.environ) if isinstance(credentials, AmbientCredentials) else None
