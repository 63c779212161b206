"""An S3 folder: by the lean client, but for directory buckets, and for credentials that are no plain keys."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import TYPE_CHECKING, Self

from stoker_api.dataset_source import Source
from stoker_sidecar.errors import AccessDenied, InvalidSource, ObjectGone, ServerError, SourceChanged
from stoker_sidecar.store.base import Body, Retry
from stoker_sidecar.store.connection import ConnectionSettings, tls_context
from stoker_sidecar.store.core.location import S3Location
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.store.core.s3_requests import AccessKeys, bucket_address, environment_keys, is_directory_bucket
from stoker_sidecar.store.s3_get import KeySource, S3Getter
from stoker_sidecar.store.s3_list import Page, S3Lister
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.objects import ListedObject
from stoker_sidecar.wire.credentials import AmbientCredentials, AnonymousCredentials, Credentials, StaticCredentials

if TYPE_CHECKING:
    from stoker_sidecar.store.s3_boto import S3Boto

AskPage = Callable[[str, str], Awaitable[Page]]  # for a prefix, and a page's token

_log = logging.getLogger(__name__)
# A listing of versions has all old ones too. It may take that many pages, and so many times those that the objects
# alone would; then the ids are given up.
FREE_PAGES, MOST_PAGES = 100, 4
PAGE = 1000  # objects


class _NoVersionIdsError(Exception):
    """The bucket keeps versions, and its objects are listed without their ids all the same."""


class S3Store:
    """An ObjectStore over a prefix of an S3 bucket, made by ``connect``.

    It holds one client with its connections, and one for credentials where they are no plain keys.
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
        self._hint = hint  # what to do when nobody is let in without credentials
        self._getter = getter
        self._lister = lister
        self._boto = boto
        self._retry = retry

    @classmethod
    async def connect(
        cls, source: Source, location: S3Location, credentials: Credentials, settings: ConnectionSettings, retry: Retry
    ) -> Self:
        """Make a store; only web identity opens a connection at once, to STS. Raises SourceError."""
        boto = _LazyBoto(source, location.bucket, credentials, settings)
        tls = await in_thread(tls_context, credentials, settings.ca_bundle)
        hint = credentials.hint if isinstance(credentials, AnonymousCredentials) else ""
        if is_directory_bucket(location.bucket):
            client = await boto.opened()
            return cls(location, client, client, boto, retry, hint)
        address = bucket_address(source, location.bucket)
        getter = S3Getter(address, await _keys(credentials, boto), settings, tls)
        return cls(location, getter, S3Lister(getter.ask_bucket, address.endpoint), boto, retry, hint)

    async def list(self) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield pages of up to 1,000 objects, with their version ids where the bucket keeps versions.

        Where they cannot be had, or cost too much, it begins anew without them: objects that came before come again.
        """
        lister = self._lister
        if isinstance(lister, S3Lister) and await self._keeps_versions(lister):
            try:
                async with aclosing(self._versions(lister)) as pages:
                    async for page in pages:
                        yield page
            except _NoVersionIdsError as error:
                _log.info("%s is listed without version ids: %s", self._location.bucket, error)
            else:
                return
        async with aclosing(self._pages(lister.page)) as pages:
            async for page in pages:
                yield page

    async def _keeps_versions(self, lister: S3Lister) -> bool:
        try:
            return await self._retry(lister.keeps_versions)
        except (AccessDenied, ServerError) as error:
            if error.temporary:
                raise
            return False  # many an identity may not ask, and many a server does not know the question

    async def _versions(self, lister: S3Lister) -> AsyncGenerator[Sequence[ListedObject], None]:
        """Yield pages with version ids. Raises _NoVersionIdsError when that is no way to go on."""
        pages, objects, tried = 0, 0, False
        try:
            async with aclosing(self._pages(lister.versions_page)) as found:
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
        """Read a byte of one version by its id, since that takes a permission of its own (s3:GetObjectVersion)."""

        async def read() -> None:
            key = self._location.prefix + found.path.decode()
            version = found.version_id
            async with self._getter.get_range(key, 0, 1, if_match=found.etag, version_id=version) as body:
                await body.stream(lambda data: None)

        try:
            await self._retry(read)
        except (SourceChanged, ObjectGone, InvalidSource):
            pass  # since the page was made; or it is archived
        except UnicodeDecodeError as error:
            raise _NoVersionIdsError("one of its keys is not UTF-8") from error

    async def _pages(self, ask: AskPage) -> AsyncGenerator[Sequence[ListedObject], None]:
        """Yield all pages. The next is asked for before one is parsed, so that the server makes it meanwhile."""
        asked: asyncio.Task[Page] | None = asyncio.create_task(self._page(ask, ""))
        try:
            while asked is not None:
                read, token = await asked
                asked = asyncio.create_task(self._page(ask, token)) if token else None
                await asyncio.sleep(0)  # the request goes out first
                yield read()
        finally:
            if asked is not None:
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)

    def get_range(
        self,
        path: str,
        offset: int,
        length: int,
        *,
        if_match: str,
        version_id: str = "",
        whole: bool = False,
        ahead: int = 0,
    ) -> AbstractAsyncContextManager[Body]:
        """Send one GetObject with If-Match (or versionId), and Range unless it is for the whole object."""
        key = self._location.prefix + path
        return self._getter.get_range(
            key, offset, length, if_match=if_match, version_id=version_id, whole=whole, ahead=ahead
        )

    async def checksum(self, path: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Send one HeadObject, since S3 states no checksum in its responses to ranged GETs."""
        return await self._getter.checksum(self._location.prefix + path, if_match=if_match, version_id=version_id)

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        await self._getter.aclose()
        await self._boto.aclose()

    async def _page(self, ask: AskPage, token: str) -> Page:
        try:
            return await self._retry(partial(ask, self._location.prefix, token))
        except AccessDenied as error:
            if not self._hint:
                raise
            raise AccessDenied(f"{error.message}; {self._hint}") from error


class _LazyBoto:
    """The S3Boto of a bucket, opened when it is first needed.

    aiobotocore is 25 MB and a quarter of a second of CPU, which a process with plain keys does without.
    """

    def __init__(self, source: Source, bucket: str, credentials: Credentials, settings: ConnectionSettings) -> None:
        self._wanted = source, bucket, credentials, settings
        self._boto: S3Boto | None = None

    async def opened(self) -> "S3Boto":
        """Return the client, the same each time. Raises SourceError."""
        if self._boto is None:
            self._boto = await (await in_thread(_s3_boto)).open(*self._wanted)
        return self._boto

    async def aclose(self) -> None:
        """Close the client if it was opened. Idempotent."""
        if self._boto is not None:
            await self._boto.aclose()


def _s3_boto() -> "type[S3Boto]":
    """Return the class S3Boto; importing aiobotocore blocks."""
    from stoker_sidecar.store.s3_boto import S3Boto

    return S3Boto


async def _keys(credentials: Credentials, boto: _LazyBoto) -> KeySource:
    keys = _plain_keys(credentials)
    if keys is None:
        return (await boto.opened()).keys

    async def same() -> AccessKeys:
        return keys

    return same


def _plain_keys(credentials: Credentials) -> AccessKeys | None:
    if isinstance(credentials, StaticCredentials):
        return AccessKeys(credentials.access_key_id, credentials.secret_access_key, credentials.session_token)
    return environment_keys(os.environ) if isinstance(credentials, AmbientCredentials) else None
