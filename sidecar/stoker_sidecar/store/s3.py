"""An S3 folder through aiobotocore."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote_to_bytes

from stoker_api.dataset import Source
from stoker_sidecar.core.credentials import Credentials
from stoker_sidecar.core.location import S3Location
from stoker_sidecar.core.objects import ListedObject
from stoker_sidecar.store.base import Body
from stoker_sidecar.store.retry import Retry
from stoker_sidecar.store.s3_clients import AMAZON, ConnectionSettings, open_client
from stoker_sidecar.store.s3_errors import translated

if TYPE_CHECKING:
    from types_aiobotocore_s3 import S3Client
    from types_aiobotocore_s3.type_defs import ListObjectsV2OutputTypeDef, ObjectTypeDef

# Bytes taken from the socket at a time: aiohttp's buffer holds twice 64 KiB, so this drains it in one go.
_READ_SIZE = 256 * 1024
_ENCRYPTION_WITHOUT_MD5 = ("aws:kms", "aws:kms:dsse")


class S3Store:
    """``connect`` makes one; it holds one client with its connection pool."""

    def __init__(
        self, client: "S3Client", location: S3Location, endpoint: str, retry: Retry, stack: AsyncExitStack
    ) -> None:
        self._client = client
        self._location = location
        self._endpoint = endpoint
        self._retry = retry
        self._stack = stack

    @classmethod
    async def connect(
        cls, source: Source, location: S3Location, credentials: Credentials, settings: ConnectionSettings, retry: Retry
    ) -> Self:
        """Opens no connection yet, but for web identity, which asks STS. Raises SourceError."""
        stack = AsyncExitStack()
        endpoint = source.endpoint or AMAZON
        with translated(location.bucket, endpoint):
            client = await open_client(source, credentials, settings, stack)
        return cls(client, location, endpoint, retry, stack)

    async def list(self) -> AsyncIterator[Sequence[ListedObject]]:
        """Pages of up to 1,000 objects, as ListObjectsV2 gives them."""
        token = ""
        while True:
            page = await self._retry(partial(self._page, token))
            yield [self._listed(item, page) for item in page.get("Contents", ())]
            token = page.get("NextContinuationToken", "")
            if not page.get("IsTruncated") or not token:
                return

    @asynccontextmanager
    async def get_range(
        self, path: str, offset: int, length: int, *, if_match: str, version_id: str = ""
    ) -> AsyncIterator[Body]:
        """One GetObject with Range and If-Match (or versionId)."""
        key = self._location.prefix + path
        wanted: dict[str, Any] = {"VersionId": version_id} if version_id else {}
        if if_match:
            wanted["IfMatch"] = f'"{if_match}"'
        with translated(self._location.bucket, self._endpoint, key):
            answer = await self._client.get_object(
                Bucket=self._location.bucket, Key=key, Range=f"bytes={offset}-{offset + length - 1}", **wanted
            )
            async with answer["Body"] as stream:
                encryption = answer.get("ServerSideEncryption", "")
                customer_key = bool(answer.get("SSECustomerAlgorithm", ""))
                may_be_md5 = not customer_key and encryption not in _ENCRYPTION_WITHOUT_MD5
                yield Body(self._chunks(stream, key), may_be_md5)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._stack.aclose()

    async def _chunks(self, stream: Any, key: str) -> AsyncIterator[bytes]:
        with translated(self._location.bucket, self._endpoint, key):
            while data := await stream.read(_READ_SIZE):
                yield data

    async def _page(self, token: str) -> "ListObjectsV2OutputTypeDef":
        resume: dict[str, Any] = {"ContinuationToken": token} if token else {}
        with translated(self._location.bucket, self._endpoint):
            return await self._client.list_objects_v2(
                Bucket=self._location.bucket, Prefix=self._location.prefix, EncodingType="url", **resume
            )

    def _listed(self, item: "ObjectTypeDef", page: "ListObjectsV2OutputTypeDef") -> ListedObject:
        key = item["Key"]
        # Asked for explicitly, the encoding is left to us: raw bytes, so that a key that is not UTF-8 can be counted.
        raw = unquote_to_bytes(key.replace("+", " ")) if page.get("EncodingType") == "url" else key.encode()
        modified = item["LastModified"]
        # S3 gives whole seconds, some servers milliseconds; microseconds are exact in both.
        mtime_ns = (int(modified.timestamp()) * 1_000_000 + modified.microsecond) * 1000
        return ListedObject(
            raw.removeprefix(self._location.prefix.encode()), item["Size"], mtime_ns, item["ETag"].strip('"')
        )
