"""An S3 folder: GETs by the lean client, everything else by aiobotocore."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Self

from stoker_api.dataset import Source
from stoker_sidecar.errors import AccessDenied
from stoker_sidecar.store.base import Body, Retry
from stoker_sidecar.store.connection import ConnectionSettings, tls_context
from stoker_sidecar.store.core.location import S3Location
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.store.core.s3_requests import AccessKeys, bucket_address, is_directory_bucket
from stoker_sidecar.store.s3_get import KeySource, S3Getter
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.objects import ListedObject
from stoker_sidecar.wire.credentials import AnonymousCredentials, Credentials, StaticCredentials

if TYPE_CHECKING:
    from stoker_sidecar.store.s3_boto import S3Boto

Page = tuple[Callable[[], Sequence[ListedObject]], str]  # and the next page's token


class S3Store:
    """An ObjectStore over a prefix of an S3 bucket, made by ``connect``.

    It holds one client for GETs with its connections, and one for listings once it has listed.
    """

    def __init__(
        self, location: S3Location, getter: "S3Getter | S3Boto", boto: "_LazyBoto", retry: Retry, hint: str = ""
    ) -> None:
        self._location = location
        self._hint = hint  # what to do when nobody is let in without credentials
        self._getter = getter
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
            return cls(location, await boto.opened(), boto, retry, hint)
        address = bucket_address(source, location.bucket)
        keys = await _keys(credentials, boto)
        return cls(location, S3Getter(address, keys, settings, tls), boto, retry, hint)

    async def list(self) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield pages of up to 1,000 objects, as ListObjectsV2 gives them.

        The next page is asked for before one is parsed, so that the server makes it meanwhile.
        """
        boto = await self._boto.opened()
        asked: asyncio.Task[Page] | None = asyncio.create_task(self._page(boto, ""))
        try:
            while asked is not None:
                read, token = await asked
                asked = asyncio.create_task(self._page(boto, token)) if token else None
                await asyncio.sleep(0)  # the request goes out first
                yield read()
        finally:
            if asked is not None:
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)

    def get_range(
        self, path: str, offset: int, length: int, *, if_match: str, version_id: str = "", whole: bool = False
    ) -> AbstractAsyncContextManager[Body]:
        """Send one GetObject with If-Match (or versionId), and Range unless it is for the whole object."""
        key = self._location.prefix + path
        return self._getter.get_range(key, offset, length, if_match=if_match, version_id=version_id, whole=whole)

    async def checksum(self, path: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Send one HeadObject, since S3 states no checksum in its responses to ranged GETs."""
        return await self._getter.checksum(self._location.prefix + path, if_match=if_match, version_id=version_id)

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        await self._getter.aclose()
        await self._boto.aclose()

    async def _page(self, boto: "S3Boto", token: str) -> Page:
        try:
            return await self._retry(partial(boto.page, self._location.prefix, token))
        except AccessDenied as error:
            if not self._hint:
                raise
            raise AccessDenied(f"{error.message}; {self._hint}") from error


class _LazyBoto:
    """The S3Boto of a bucket, opened when it is first needed.

    aiobotocore is 25 MB and half a second of CPU, which a process that only GETs with plain keys does without.
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
    if not isinstance(credentials, StaticCredentials):
        return (await boto.opened()).keys
    keys = AccessKeys(credentials.access_key_id, credentials.secret_access_key, credentials.session_token)

    async def same() -> AccessKeys:
        return keys

    return same
