"""Translates what botocore raises into the sidecar's errors."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from botocore import exceptions as boto

from stoker_api.names import Reason
from stoker_sidecar import errors
from stoker_sidecar.store.refusals import (
    Refusal,
    broken_off,
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
        raise refused(_refusal(error), bucket, key) from error
    except (boto.SSLError, ssl.SSLError, aiohttp.ClientSSLError) as error:
        raise untrusted(endpoint, error) from error
    except (boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError) as error:
        raise errors.InvalidCredentials(f"no usable credentials for {what}: {error}") from error
    except (boto.ResponseStreamingError, boto.IncompleteReadError, aiohttp.ClientPayloadError) as error:
        raise broken_off(endpoint, what) from error
    except (boto.HTTPClientError, boto.ConnectionError, aiohttp.ClientError, TimeoutError, OSError) as error:
        raise unreachable(endpoint, error) from error
    except boto.ParamValidationError as error:
        raise errors.InvalidSource(f"{what} cannot be asked for: {error}", reason=Reason.MALFORMED_URI) from error
    except boto.BotoCoreError as error:
        raise errors.InvalidSource(f"{what} cannot be asked for: {error}") from error


def _refusal(error: boto.ClientError) -> Refusal:
    detail, about = error.response.get("Error", {}), error.response.get("ResponseMetadata", {})
    headers = about.get("HTTPHeaders", {})
    return Refusal(
        status=int(about.get("HTTPStatusCode", 0)),
        code=str(detail.get("Code", "")),
        message=str(detail.get("Message", "")),
        region=str(headers.get("x-amz-bucket-region", "") or detail.get("Region", "")),
        retry_after=read_retry_after(str(headers.get("retry-after", ""))),
    )
