"""Error responses of S3 servers and failures of the network as SourceErrors, each a sentence that says what to do."""

import html
import re
from dataclasses import dataclass

from stoker_sidecar import errors
from stoker_sidecar.errors import SourceError

_UNKNOWN_KEY = "the access key is unknown to the server: check AWS_ACCESS_KEY_ID in the Secret"
_CREDENTIALS = {
    "InvalidAccessKeyId": _UNKNOWN_KEY,
    "XAdminUserNotFound": _UNKNOWN_KEY,  # versitygw's word for it, with status 404
    "SignatureDoesNotMatch": "the signature does not match: check AWS_SECRET_ACCESS_KEY in the Secret, "
    "and source.region",
    "InvalidToken": "the session token is refused: check AWS_SESSION_TOKEN in the Secret",
    "InvalidIdentityToken": "STS does not trust the ServiceAccount's token: check the role's OIDC provider",
}
# These can end without a new Secret: keys of roles renew themselves, and clocks are set.
_FOR_NOW = {
    "ExpiredToken": "the session token has expired: renew the Secret, unless a role's keys renew themselves",
    "ExpiredTokenException": "the ServiceAccount's token has expired",
    "TokenRefreshRequired": "the session token has expired: renew the Secret, unless a role's keys renew themselves",
    "RequestTimeTooSkewed": "the clocks of the node and of the server differ too much: set the node's clock",
}
_THROTTLED = frozenset({"SlowDown", "Throttling", "ThrottlingException", "TooManyRequests", "RequestLimitExceeded"})
_WRONG_REGION = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"})
_NOT_IMPLEMENTED = 501
_GONE = frozenset({"", "NoSuchKey", "NoSuchVersion", "404"})
_FIELD = re.compile(r"<(Code|Message|Region)>([^<]*)</")


@dataclass(frozen=True)
class ErrorResponse:
    """A response that is an error.

    ``region``: where the server says that the bucket is; ``retry_after``: seconds.
    """

    status: int
    code: str = ""
    message: str = ""
    region: str = ""
    retry_after: float = 0.0


def parse_error_response(status: int, body: str, region: str, retry_after: str) -> ErrorResponse:
    """Parse a response's body, which is S3's XML or a proxy's page, and two headers.

    ``region`` is the header x-amz-bucket-region, ``retry_after`` Retry-After; both are empty when they did not come.
    """
    found = {name: html.unescape(text) for name, text in _FIELD.findall(body)}
    region = region or found.get("Region", "")
    return ErrorResponse(status, found.get("Code", ""), found.get("Message", ""), region, read_retry_after(retry_after))


def read_retry_after(value: str) -> float:
    """Parse Retry-After into seconds; its other form, a date, which S3 servers do not use, counts as 0."""
    return float(value) if value.isascii() and value.isdigit() else 0.0


def response_error(response: ErrorResponse, bucket: str, key: str = "") -> SourceError:
    """Make the SourceError that an error response means. ``key``: the object asked for, empty for a listing."""
    what, code = name_of(bucket, key), response.code
    if code in _CREDENTIALS:
        return errors.InvalidCredentials(f"{what} refused the credentials ({code}): {_CREDENTIALS[code]}")
    if code in _FOR_NOW:
        return errors.InvalidCredentials(f"{what} refused the credentials ({code}): {_FOR_NOW[code]}", temporary=True)
    if code == "NoSuchBucket":
        return errors.BucketNotFound(
            f"there is no bucket {bucket!r} at the endpoint: check source.uri and source.endpoint"
        )
    if is_elsewhere(response):
        return _elsewhere(response, what)
    if code in _THROTTLED or response.status == 429:
        return errors.Throttled(
            f"{what} answers {code or response.status}: the server asks for fewer requests",
            retry_after=response.retry_after,
        )
    return _by_status(response, what)


def is_elsewhere(response: ErrorResponse) -> bool:
    """Tell whether the response sends the client to another region or endpoint."""
    return response.code in _WRONG_REGION or response.status in (301, 302, 307, 308)


def name_of(bucket: str, key: str) -> str:
    """Return the name of an object in messages; of the bucket when ``key`` is empty."""
    return f"s3://{bucket}/{key}" if key else f"the bucket {bucket!r}"


def unreachable(endpoint: str, error: Exception) -> SourceError:
    """Make the error of a server that does not answer. ``endpoint``: as people know it."""
    # The cause of a timeout is the cancellation that it is made of.
    cause = error if isinstance(error, TimeoutError) else error.__cause__ or error
    if "certificate" in str(cause).lower():
        return untrusted(endpoint, error)
    return errors.EndpointUnreachable(
        f"{endpoint} does not answer ({type(cause).__name__}: {cause}): check source.endpoint, DNS and the network"
    )


def broken_off(endpoint: str, what: str) -> SourceError:
    """Make the error of a connection that ended before the body did."""
    return errors.EndpointUnreachable(
        f"{endpoint} broke off in the middle of {what}: if that goes on, check the network and what lies between"
    )


def untrusted(endpoint: str, error: Exception) -> SourceError:
    """Make the error of a certificate that is not trusted, or of a server that does not speak TLS."""
    if "WRONG_VERSION_NUMBER" in str(error):  # OpenSSL's word for an answer that is no TLS
        return errors.EndpointUnreachable(
            f"{endpoint} does not answer in TLS: write http:// in source.endpoint, or have the server speak TLS"
        )
    return errors.EndpointUnreachable(
        f"the TLS certificate of {endpoint} is not trusted ({error}): put its CA into the key ca.crt of the Secret",
        temporary=False,
    )


def _elsewhere(response: ErrorResponse, what: str) -> SourceError:
    if response.region:
        return errors.InvalidSource(f"{what} is in the region {response.region}: set source.region to it")
    return errors.InvalidSource(
        f"{what} is elsewhere ({response.status} {response.code}: {response.message}): set source.region and "
        "source.endpoint"
    )


def _by_status(response: ErrorResponse, what: str) -> SourceError:
    status, code = response.status, response.code
    if status in (412, 416):
        return errors.SourceChanged(f"{what} is no longer the object that was listed: refresh the Dataset")
    if status == 404 and code in _GONE:
        return errors.ObjectGone(f"{what} was deleted after the listing: refresh the Dataset")
    if code == "InvalidObjectState":
        return errors.InvalidSource(f"{what} is archived: restore it first, or exclude it by source.exclude")
    if status in (401, 403):
        return errors.AccessDenied(
            f"{what} answers {code or status}: grant s3:ListBucket and s3:GetObject to this identity"
        )
    temporary = (status >= 500 and status != _NOT_IMPLEMENTED) or code == "RequestTimeout"
    return errors.ServerError(
        f"{what} answers {status} {code}: {response.message or 'no reason given'}",
        temporary=temporary,
        retry_after=response.retry_after,
    )
