"""Translates what botocore raises into the sidecar's errors, each a sentence that says what to do."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from botocore import exceptions as boto

from stoker_api.names import Reason
from stoker_sidecar import errors
from stoker_sidecar.errors import SourceError

_UNKNOWN_KEY = "the access key is unknown to the server: check AWS_ACCESS_KEY_ID in the Secret"
_CREDENTIALS = {
    "InvalidAccessKeyId": _UNKNOWN_KEY,
    "XAdminUserNotFound": _UNKNOWN_KEY,  # versitygw's word for it, with status 404
    "SignatureDoesNotMatch": "the signature does not match: check AWS_SECRET_ACCESS_KEY in the Secret, and source.region",
    "ExpiredToken": "the session token has expired: renew the Secret",
    "ExpiredTokenException": "the ServiceAccount's token has expired",
    "InvalidToken": "the session token is refused: check AWS_SESSION_TOKEN in the Secret",
    "InvalidIdentityToken": "STS does not trust the ServiceAccount's token: check the role's OIDC provider",
    "RequestTimeTooSkewed": "the clocks of the node and of the server differ too much: set the node's clock",
}
_THROTTLED = frozenset({"SlowDown", "Throttling", "ThrottlingException", "TooManyRequests", "RequestLimitExceeded"})
_WRONG_REGION = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"})
_GONE = frozenset({"NoSuchKey", "NoSuchVersion", "404"})


@contextmanager
def translated(bucket: str, endpoint: str, key: str = "") -> Iterator[None]:
    """``endpoint``: as people know it; ``key``: the object asked for, empty for a listing."""
    what = f"s3://{bucket}/{key}" if key else f"the bucket {bucket!r}"
    try:
        yield
    except boto.ClientError as error:
        raise _answered(error, bucket, what) from error
    except (boto.SSLError, ssl.SSLError, aiohttp.ClientSSLError) as error:
        raise _untrusted(endpoint, error) from error
    except (boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError) as error:
        raise errors.InvalidCredentials(f"no usable credentials for {what}: {error}") from error
    except (boto.HTTPClientError, boto.ConnectionError, aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _unreachable(endpoint, error) from error
    except boto.ParamValidationError as error:
        raise errors.InvalidSource(f"{what} cannot be asked for: {error}", reason=Reason.MALFORMED_URI) from error
    except boto.BotoCoreError as error:
        raise errors.InvalidSource(f"{what} cannot be asked for: {error}") from error


def _answered(error: boto.ClientError, bucket: str, what: str) -> SourceError:
    detail = error.response.get("Error", {})
    code, message = str(detail.get("Code", "")), str(detail.get("Message", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _CREDENTIALS:
        return errors.InvalidCredentials(f"{what} refused the credentials ({code}): {_CREDENTIALS[code]}")
    if code == "NoSuchBucket":
        return errors.BucketNotFound(
            f"there is no bucket {bucket!r} at the endpoint: check source.uri and source.endpoint"
        )
    if code in _WRONG_REGION or status == 301:
        return errors.InvalidSource(f"{what} is in another region ({message}): set source.region")
    if code in _THROTTLED or status == 429:
        return errors.Throttled(f"{what} answers {code or status}: the server asks for fewer requests")
    return _by_status(status, code, message, what)


def _by_status(status: int, code: str, message: str, what: str) -> SourceError:
    if status in (412, 416):
        return errors.SourceChanged(f"{what} is no longer the object that was listed: refresh the Dataset")
    if code in _GONE:
        return errors.ObjectGone(f"{what} was deleted after the listing: refresh the Dataset")
    if status in (401, 403):
        return errors.AccessDenied(
            f"{what} answers {code or status}: grant s3:ListBucket and s3:GetObject to this identity"
        )
    temporary = status >= 500 or code == "RequestTimeout"
    return errors.ServerError(f"{what} answers {status} {code}: {message}", temporary=temporary)


def _untrusted(endpoint: str, error: Exception) -> SourceError:
    return errors.EndpointUnreachable(
        f"the TLS certificate of {endpoint} is not trusted ({error}): put its CA into the key ca.crt of the Secret",
        temporary=False,
    )


def _unreachable(endpoint: str, error: Exception) -> SourceError:
    cause = error.__cause__ or error
    if "certificate" in str(cause).lower():
        return _untrusted(endpoint, error)
    return errors.EndpointUnreachable(
        f"{endpoint} does not answer ({type(cause).__name__}: {cause}): check source.endpoint, DNS and the network"
    )
