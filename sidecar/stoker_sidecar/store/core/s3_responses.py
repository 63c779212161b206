"""What a response of an S3 server means, or that none came: the bytes asked for, or a SourceError that says what to do.

Bytes are compared with what was asked for, since servers and proxies that ignore a header exist.
"""

import html
import re
from dataclasses import dataclass
from typing import NamedTuple

from stoker_sidecar import errors
from stoker_sidecar.errors import CorruptBody, SourceChanged, SourceError

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
# SlowDown of AWS, MinIO, Ceph and most others; the rest of AWS's, as its SDKs retry them; ServerBusy and the like of
# gateways. MinIO's SlowDownRead is none of them: disks of an object are missing, and asking less helps nothing.
_THROTTLED = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "ServerBusy",
        "ServiceUnavailable",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "TooManyRequestsException",
    }
)
_LIMIT_EXCEEDED = "LimitExceeded"  # how Alibaba's end: TotalQpsLimitExceeded, DownloadTrafficRateLimitExceeded
_WRONG_REGION = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"})
_NOT_IMPLEMENTED = 501
_GONE = frozenset({"", "NoSuchKey", "NoSuchVersion", "404"})
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(?:\d+|\*)")
_ENCRYPTION_WITHOUT_MD5 = ("aws:kms", "aws:kms:dsse")
_FIELD = re.compile(r"<(Code|Message|Region)>([^<]*)</")


class ExpectedRange(NamedTuple):
    """The bytes of an object that were asked for.

    ``what``: s3://bucket/key, for messages; ``etag``: the one that was listed, empty when any will do.
    """

    what: str
    offset: int
    length: int
    etag: str


class ResponseHead(NamedTuple):
    """The status and headers of a response to a GET, as far as they tell which bytes it has.

    Headers are as they came, empty when there was none; ``length`` is None when the server did not say.
    """

    status: int
    content_range: str
    length: int | None
    etag: str


def check_response(expected: ExpectedRange, got: ResponseHead) -> None:
    """Check that the body will be the bytes that were asked for.

    Raises SourceChanged when the object has another ETag, CorruptBody when its bytes would be others.
    """
    check_etag(expected.what, expected.etag, got.etag)
    if (start := _start(got)) != expected.offset:
        raise CorruptBody(
            f"{expected.what}: the server answers {got.status} with the range {got.content_range!r} where bytes "
            f"{expected.offset} to {expected.offset + expected.length - 1} were asked for: a proxy or server ignores "
            "Range"
        )
    length = _length(got)
    if length is not None and length != expected.length:
        raise CorruptBody(
            f"{expected.what}: the server offers {length} bytes where {expected.length} were asked for at {start}"
        )


def check_etag(what: str, listed: str, header: str) -> None:
    """Compare the ETag that was listed, empty when any will do, with the header. Raises SourceChanged."""
    found = header.removeprefix("W/").strip('"')  # proxies weaken ETags when they touch a header
    if listed and found and found != listed:
        raise SourceChanged(
            f"{what} has the ETag {found} where {listed} was listed: the object changed, refresh the Dataset"
        )


def etag_may_be_md5(encryption: str, customer_algorithm: str) -> bool:
    """Tell whether an ETag may be the object's MD5.

    By the headers x-amz-server-side-encryption and x-amz-server-side-encryption-customer-algorithm.
    """
    return not customer_algorithm and encryption not in _ENCRYPTION_WITHOUT_MD5


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
    if _is_throttled(response):
        return errors.Throttled(
            f"{what} answers {code or response.status}: the server asks for fewer requests",
            retry_after=response.retry_after,
        )
    return _by_status(response, what)


def _is_throttled(response: ErrorResponse) -> bool:
    """Tell whether the server has more to do than it can, by its word or where it gives none (HTTP's 429 and 503)."""
    code, busy = response.code, response.status in (429, 503)
    wordless = code in ("", str(response.status))  # the latter is botocore's for no code
    return code in _THROTTLED or response.status == 429 or (busy and (wordless or code.endswith(_LIMIT_EXCEEDED)))


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


def _start(got: ResponseHead) -> int | None:
    if got.status == 200:  # the whole object
        return 0
    found = _CONTENT_RANGE.fullmatch(got.content_range)
    return int(found[1]) if found else None


def _length(got: ResponseHead) -> int | None:
    """Return the shorter of what the two headers promise, since either may be wrong."""
    found = _CONTENT_RANGE.fullmatch(got.content_range)
    ranged = int(found[2]) - int(found[1]) + 1 if found and got.status == 206 else None
    lengths = [length for length in (ranged, got.length) if length is not None]
    return min(lengths, default=None)


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
        return SourceChanged(f"{what} is no longer the object that was listed: refresh the Dataset")
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
