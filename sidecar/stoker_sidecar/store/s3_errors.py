"""Translates what botocore raises into the sidecar's errors."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import aiohttp
from botocore import exceptions as boto

from stoker_api.names import Reason
from stoker_sidecar import errors
from stoker_sidecar.store.refusals import (
    Refusal,
    broken_off,
    is_elsewhere,
    name_of,
    read_retry_after,
    refused,
    unreachable,
    untrusted,
)


@contextmanager
def translated(bucket: str, endpoint: str, key: str = "") -> Iterator[None]:
    """``endpoint``: as people know it; ``key``: the object asked for, empty for a listing."""
    what = name_of(bucket, key)
    try:
        yield
    except boto.ClientError as error:
        raise refused(_refusal(error.response), bucket, key) from error
    except (boto.SSLError, ssl.SSLError, aiohttp.ClientSSLError) as error:
        raise untrusted(endpoint, error) from error
    except (boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError) as error:
        raise errors.InvalidCredentials(f"no usable credentials for {what}: {error}") from error
    except (boto.ResponseStreamingError, boto.IncompleteReadError, aiohttp.ClientPayloadError) as error:
        raise broken_off(endpoint, what) from error
    except boto.FlexibleChecksumError as error:
        raise errors.CorruptBody(f"{what} was spoilt on the way: {error}") from error
    except (boto.HTTPClientError, boto.ConnectionError, aiohttp.ClientError, TimeoutError, OSError) as error:
        raise unreachable(endpoint, error) from error
    except boto.ParamValidationError as error:
        raise errors.InvalidSource(f"{what} cannot be asked for: {error}", reason=Reason.MALFORMED_URI) from error
    except boto.BotoCoreError as error:
        raise errors.InvalidSource(f"{what} cannot be asked for: {error}") from error


def refuse_elsewhere(bucket: str, response: "tuple[Any, Mapping[str, Any]] | None", **_: object) -> None:
    """A handler of botocore's event ``needs-retry``: HTTP answer and what was parsed of it. Raises InvalidSource."""
    if response is not None and is_elsewhere(refusal := _refusal(response[1])):
        raise refused(refusal, bucket)


def _refusal(answer: Mapping[str, Any]) -> Refusal:
    detail, about = answer.get("Error", {}), answer.get("ResponseMetadata", {})
    headers = about.get("HTTPHeaders", {})
    return Refusal(
        status=int(about.get("HTTPStatusCode", 0)),
        code=str(detail.get("Code", "")),
        message=str(detail.get("Message", "")),
        region=str(headers.get("x-amz-bucket-region", "") or detail.get("Region", "")),
        retry_after=read_retry_after(str(headers.get("retry-after", ""))),
    )
