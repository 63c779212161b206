"""The aiobotocore client of a bucket: the chain of credentials, and all requests to directory buckets."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self, TypeVar

import aiohttp
from botocore import exceptions as boto

from stoker_api.datasets.dataset_source import Source
from stoker_api.names import Reason
from stoker_sidecar import errors
from stoker_sidecar.store.base import Body, in_chunks
from stoker_sidecar.store.buckets.s3_clients import Identity, open_client, open_identity
from stoker_sidecar.store.buckets.s3_list import PAGE_SECONDS, Page, check_goes_on
from stoker_sidecar.store.buckets.s3_pages import PAGE_EVENTS, goes_on, listed_objects, take_contents
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.object_checksum import Checksum, multipart_checksum, stated_checksum
from stoker_sidecar.store.core.s3_requests import AMAZON, AccessKeys, with_present_keys
from stoker_sidecar.store.core.s3_responses import (
    ErrorResponse,
    ExpectedRange,
    ResponseHead,
    broken_off,
    check_etag,
    check_response,
    etag_may_be_md5,
    is_elsewhere,
    name_of,
    read_retry_after,
    response_error,
    unreachable,
    untrusted,
)
from stoker_sidecar.wire.credentials import Credentials

if TYPE_CHECKING:
    from types_aiobotocore_s3 import S3Client
    from types_aiobotocore_s3.type_defs import (
        GetObjectOutputTypeDef,
        HeadObjectOutputTypeDef,
        ListObjectsV2OutputTypeDef,
    )

T = TypeVar("T")

# Bytes per read. aiohttp's buffer has twice 64 KiB, so one read empties it.
_READ_SIZE = 256 * 1024


class S3Boto:
    """An aiobotocore client for one bucket, made by ``open``. It takes its 15 MB at the first listing or GET."""

    def __init__(self, source: Source, bucket: str, identity: Identity, settings: ConnectionSettings) -> None:
        self._source = source
        self._bucket = bucket
        self._endpoint = source.endpoint or AMAZON
        self._identity = identity
        self._settings = settings
        self._client: S3Client | None = None
        self._signed, self._session = identity.signed, identity.session
        self._stack = AsyncExitStack()

    @classmethod
    async def open(cls, source: Source, bucket: str, credentials: Credentials, settings: ConnectionSettings) -> Self:
        """Make a client and its credentials.

        It exchanges web identity at STS, and asks the node's metadata service if it has no other credentials. Raises
        SourceError.
        """
        with _translated(bucket, source.endpoint or AMAZON):
            return cls(source, bucket, await open_identity(source, credentials, settings), settings)

    async def keys(self) -> AccessKeys | None:
        """Return the current keys, renewed if they expire soon; None: anonymous. Raises SourceError."""
        with _translated(self._bucket, self._endpoint):
            return await self._identity.keys()

    async def renew(self, refused: AccessKeys | None) -> bool:
        """Ask the chain of credentials again after the store refused these keys; return True if the keys changed."""
        return await self._identity.renew(refused)

    async def page(self, prefix: str, token: str) -> Page:
        """See S3Lister."""
        resume: dict[str, Any] = {"ContinuationToken": token} if token else {}

        async def ask(client: "S3Client") -> "ListObjectsV2OutputTypeDef":
            async with asyncio.timeout(PAGE_SECONDS):
                return await client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, EncodingType="url", **resume)

        page = await self._asked(ask)
        following = page.get("NextContinuationToken", "") if goes_on(page) else ""
        if goes_on(page) and not following:  # a directory bucket lists in no order, so no key can replace the token
            raise errors.ServerError(
                f"{self._endpoint} says that its listing continues, but not how: check source.endpoint", temporary=False
            )
        check_goes_on(self._endpoint, token, following)
        return partial(listed_objects, page, prefix), following

    @asynccontextmanager
    async def get_range(
        self, key: str, offset: int, length: int, *, if_match: str, version_id: str = "", whole: bool = False
    ) -> AsyncIterator[Body]:
        """See S3Getter."""
        wanted = _wanted(if_match, version_id)
        wanted |= {"ChecksumMode": "ENABLED"} if whole else {"Range": f"bytes={offset}-{offset + length - 1}"}
        answer = await self._asked(lambda client: client.get_object(Bucket=self._bucket, Key=key, **wanted), key)
        async with answer["Body"] as stream:
            head = _head(answer)
            check_response(ExpectedRange(name_of(self._bucket, key), offset, length, if_match), head)
            encryption, algorithm = answer.get("ServerSideEncryption", ""), answer.get("SSECustomerAlgorithm", "")
            stated = stated_checksum(_headers(answer)) if whole and head.status == HTTPStatus.OK else None
            yield Body(in_chunks(self._chunks(stream, key)), etag_may_be_md5(encryption, algorithm), stated)

    async def checksum(self, key: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """See S3Getter."""
        wanted: dict[str, Any] = {"Key": key, "ChecksumMode": "ENABLED"} | _wanted(if_match, version_id)
        answer = await self._asked(lambda client: client.head_object(Bucket=self._bucket, **wanted), key)
        check_etag(name_of(self._bucket, key), if_match, answer.get("ETag", ""))
        return stated_checksum(_headers(answer))

    async def multipart_checksum(self, key: str, size: int, *, if_match: str, version_id: str = "") -> Checksum | None:
        """See S3Getter."""
        wanted: dict[str, Any] = {"Key": key, "PartNumber": 1} | _wanted(if_match, version_id)
        answer = await self._asked(lambda client: client.head_object(Bucket=self._bucket, **wanted), key)
        check_etag(name_of(self._bucket, key), if_match, answer.get("ETag", ""))
        return multipart_checksum(if_match, size, _headers(answer))

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        await self._identity.aclose()
        await self._stack.aclose()

    async def _asked(self, ask: "Callable[[S3Client], Awaitable[T]]", key: str = "") -> T:
        """Send a request, and repeat it if its keys are refused and have changed by then. Raises SourceError."""

        async def once() -> T:
            with _translated(self._bucket, self._endpoint, key):
                return await ask(await self._opened())

        return await with_present_keys(once, self.keys, self.renew)

    async def _opened(self) -> "S3Client":
        self._identity.look_again()
        identity = self._identity.signed, self._identity.session
        if self._client is None or identity != (self._signed, self._session):
            self._signed, self._session = identity  # credentials may be new or replaced
            client = await open_client(self._source, self._identity, self._settings, self._stack)
            # Before botocore's own handler, which would ask the other region. GETs do not ask it, so neither may lists.
            client.meta.events.register_first("needs-retry.s3", partial(_refuse_elsewhere, self._bucket))
            for event in PAGE_EVENTS:
                client.meta.events.register(event, take_contents)
            self._client = client
        return self._client

    async def _chunks(self, stream: Any, key: str) -> AsyncIterator[bytes]:
        with _translated(self._bucket, self._endpoint, key):
            while data := await stream.read(_READ_SIZE):
                yield data


def _wanted(if_match: str, version_id: str) -> dict[str, Any]:
    wanted = {"VersionId": version_id} if version_id else {}
    return wanted | ({"IfMatch": f'"{if_match}"'} if if_match else {})


def _headers(answer: "GetObjectOutputTypeDef | HeadObjectOutputTypeDef") -> dict[str, str]:
    return answer["ResponseMetadata"]["HTTPHeaders"]


def _head(answer: "GetObjectOutputTypeDef") -> ResponseHead:
    status = answer["ResponseMetadata"]["HTTPStatusCode"]
    return ResponseHead(status, answer.get("ContentRange", ""), answer.get("ContentLength"), answer.get("ETag", ""))


def _refused(error: BaseException | None) -> errors.EndpointNotAllowed | None:
    """Find Stoker's refusal of an address among the causes of a botocore error."""
    while error is not None and not isinstance(error, errors.EndpointNotAllowed):
        error = error.__cause__ or error.__context__
    return error


@contextmanager
def _translated(bucket: str, endpoint: str, key: str = "") -> Iterator[None]:
    """Translate botocore's errors into SourceErrors.

    ``endpoint``: its name in messages; ``key``: the requested object, empty for a listing.
    """
    what = name_of(bucket, key)
    try:
        yield
    except boto.ClientError as error:
        raise response_error(_error_response(error.response), bucket, key) from error
    except (boto.SSLError, ssl.SSLError, aiohttp.ClientSSLError) as error:
        raise untrusted(endpoint, error) from error
    except (boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError) as error:
        away = isinstance(
            error, boto.CredentialRetrievalError
        )  # of a source of credentials, such as a metadata service
        raise errors.InvalidCredentials(f"no usable credentials for {what}: {error}", temporary=away) from error
    except (boto.ResponseStreamingError, boto.IncompleteReadError, aiohttp.ClientPayloadError) as error:
        raise broken_off(endpoint, what) from error
    except boto.FlexibleChecksumError as error:
        raise errors.CorruptBody(f"{what} was spoilt on the way: {error}") from error
    except boto.HTTPClientError as error:
        raise _refused(error) or unreachable(endpoint, error) from error
    except (boto.ConnectionError, aiohttp.ClientError, TimeoutError, OSError) as error:
        raise unreachable(endpoint, error) from error
    except boto.ParamValidationError as error:
        raise errors.InvalidSource(f"{what} cannot be asked for: {error}", reason=Reason.MALFORMED_URI) from error
    except (boto.BotoCoreError, ValueError, RecursionError) as error:  # ValueError: an invalid endpoint
        raise errors.InvalidSource(f"{what} cannot be asked for: {error}") from error


def _refuse_elsewhere(bucket: str, response: "tuple[Any, Mapping[str, Any]] | None", **_: object) -> None:
    """Handle botocore's event ``needs-retry``: an HTTP response and its parsed form. Raises InvalidSource."""
    if response is not None and is_elsewhere(answer := _error_response(response[1])):
        raise response_error(answer, bucket)


def _error_response(answer: Mapping[str, Any]) -> ErrorResponse:
    detail, about = answer.get("Error", {}), answer.get("ResponseMetadata", {})
    headers = about.get("HTTPHeaders", {})
    return ErrorResponse(
        status=int(about.get("HTTPStatusCode", 0)),
        code=str(detail.get("Code", "")),
        message=str(detail.get("Message", "")),
        region=str(headers.get("x-amz-bucket-region", "") or detail.get("Region", "")),
        retry_after=read_retry_after(str(headers.get("retry-after", ""))),
    )
