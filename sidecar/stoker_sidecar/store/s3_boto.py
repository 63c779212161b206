"""The aiobotocore client of a bucket: the chain of credentials, and all requests to directory buckets."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

import aiohttp
from botocore import exceptions as boto

from stoker_api.dataset_source import Source
from stoker_api.names import Reason
from stoker_sidecar import errors
from stoker_sidecar.store.base import Body, in_chunks
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.object_checksum import Checksum, stated_checksum
from stoker_sidecar.store.core.s3_requests import AMAZON, AccessKeys
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
from stoker_sidecar.store.s3_clients import Identity, open_client, open_identity
from stoker_sidecar.store.s3_list import PAGE_SECONDS, Page, check_goes_on
from stoker_sidecar.store.s3_pages import PAGE_EVENTS, listed_objects, take_contents
from stoker_sidecar.wire.credentials import Credentials

if TYPE_CHECKING:
    from types_aiobotocore_s3 import S3Client
    from types_aiobotocore_s3.type_defs import (
        GetObjectOutputTypeDef,
        HeadObjectOutputTypeDef,
    )

# Bytes taken from the socket at a time: aiohttp's buffer holds twice 64 KiB, so this drains it in one go.
_READ_SIZE = 256 * 1024


class S3Boto:
    """An aiobotocore client for one bucket, made by ``open``; its 15 MB are taken with the first listing or GET."""

    def __init__(self, source: Source, bucket: str, identity: Identity, settings: ConnectionSettings) -> None:
        self._source = source
        self._bucket = bucket
        self._endpoint = source.endpoint or AMAZON
        self._identity = identity
        self._settings = settings
        self._client: S3Client | None = None
        self._signed = identity.signed
        self._stack = AsyncExitStack()

    @classmethod
    async def open(cls, source: Source, bucket: str, credentials: Credentials, settings: ConnectionSettings) -> Self:
        """Make a client whose credentials are known.

        Web identity is exchanged at STS; the node's metadata service is asked where there are no other credentials.
        Raises SourceError.
        """
        with _translated(bucket, source.endpoint or AMAZON):
            return cls(source, bucket, await open_identity(source, credentials, settings), settings)

    async def keys(self) -> AccessKeys | None:
        """Return the present keys, renewed when they are about to expire; None: anonymous. Raises SourceError."""
        with _translated(self._bucket, self._endpoint):
            return await self._identity.keys()

    async def page(self, prefix: str, token: str) -> Page:
        """See S3Lister."""
        resume: dict[str, Any] = {"ContinuationToken": token} if token else {}
        with _translated(self._bucket, self._endpoint):
            client = await self._opened()
            async with asyncio.timeout(PAGE_SECONDS):
                page = await client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, EncodingType="url", **resume)
        following = page.get("NextContinuationToken", "") if page.get("IsTruncated") else ""
        check_goes_on(self._endpoint, token, following)
        return partial(listed_objects, page, prefix), following

    @asynccontextmanager
    async def get_range(
        self,
        key: str,
        offset: int,
        length: int,
        *,
        if_match: str,
        version_id: str = "",
        whole: bool = False,
        ahead: int = 0,
    ) -> AsyncIterator[Body]:
        """See S3Getter, but for ``ahead``, which it does not ask for."""
        wanted = _wanted(if_match, version_id)
        wanted |= {"ChecksumMode": "ENABLED"} if whole else {"Range": f"bytes={offset}-{offset + length - 1}"}
        with _translated(self._bucket, self._endpoint, key):
            client = await self._opened()
            answer = await client.get_object(Bucket=self._bucket, Key=key, **wanted)
        async with answer["Body"] as stream:
            head = _head(answer)
            check_response(ExpectedRange(name_of(self._bucket, key), offset, length, if_match), head)
            encryption, algorithm = answer.get("ServerSideEncryption", ""), answer.get("SSECustomerAlgorithm", "")
            stated = stated_checksum(_headers(answer)) if whole and head.status == HTTPStatus.OK else None
            yield Body(in_chunks(self._chunks(stream, key)), etag_may_be_md5(encryption, algorithm), stated)

    async def checksum(self, key: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """See S3Getter."""
        with _translated(self._bucket, self._endpoint, key):
            client = await self._opened()
            wanted = _wanted(if_match, version_id)
            answer = await client.head_object(Bucket=self._bucket, Key=key, ChecksumMode="ENABLED", **wanted)
        check_etag(name_of(self._bucket, key), if_match, answer.get("ETag", ""))
        return stated_checksum(_headers(answer))

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        await self._identity.aclose()
        await self._stack.aclose()

    async def _opened(self) -> "S3Client":
        self._identity.look_again()
        if self._client is None or self._identity.signed != self._signed:
            self._signed = self._identity.signed  # credentials may have come since
            client = await open_client(self._source, self._identity, self._settings, self._stack)
            # Before botocore's own handler, which would ask the other region: GETs do not, so listings must not either.
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
    """Find our own refusal of an address among the causes of what botocore raises."""
    while error is not None and not isinstance(error, errors.EndpointNotAllowed):
        error = error.__cause__ or error.__context__
    return error


@contextmanager
def _translated(bucket: str, endpoint: str, key: str = "") -> Iterator[None]:
    """Translate what botocore raises into SourceErrors.

    ``endpoint``: as people know it; ``key``: the object asked for, empty for a listing.
    """
    what = name_of(bucket, key)
    try:
        yield
    except boto.ClientError as error:
        raise response_error(_error_response(error.response), bucket, key) from error
    except (boto.SSLError, ssl.SSLError, aiohttp.ClientSSLError) as error:
        raise untrusted(endpoint, error) from error
    except (boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError) as error:
        raise errors.InvalidCredentials(f"no usable credentials for {what}: {error}") from error
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
    except (boto.BotoCoreError, ValueError, RecursionError) as error:  # ValueError: an endpoint that makes no sense
        raise errors.InvalidSource(f"{what} cannot be asked for: {error}") from error


def _refuse_elsewhere(bucket: str, response: "tuple[Any, Mapping[str, Any]] | None", **_: object) -> None:
    """Handle botocore's event ``needs-retry``: an HTTP response and what was parsed of it. Raises InvalidSource."""
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
