"""Interprets responses of S3 servers, and missing responses: the requested bytes, or a SourceError with advice.

It checks the range of the bytes, since some servers and proxies ignore a header.
"""

import html
import re
from dataclasses import dataclass
from typing import NamedTuple

from stoker_sidecar import errors
from stoker_sidecar.errors import CorruptBody, ServerError, SourceChanged, SourceError

# Endpoints are untrusted: any author of a Dataset can name one.
# Most bytes of a response that is read whole: a page of a listing, or an error. A page of the longest keys has 4 MB.
MOST_BODY = 16 * 1024 * 1024
# XML entities, which can make a parser use more memory than the text, and encodings that could hide them. No S3 server
# sends either.
_ENTITIES = re.compile(rb"<!DOCTYPE|<!ENTITY|\x00")
_ENCODING = re.compile(rb"""\A\s*(?:\xef\xbb\xbf)?<\?xml[^>]*\sencoding\s*=\s*["'](?!utf-8["'])""", re.IGNORECASE)


def check_size(host: str, size: int) -> None:
    """Raise ServerError if a body of at least ``size`` bytes is too large."""
    if size > MOST_BODY:
        raise ServerError(
            f"{host} answers with more than {MOST_BODY // 2**20} MiB where S3 sends a page of 1,000 objects: check "
            "source.endpoint",
            temporary=False,
        )


def check_xml(host: str, body: bytes | bytearray) -> None:
    """Raise ServerError for XML that could expand when it is parsed."""
    if _ENTITIES.search(body) or _ENCODING.search(body):
        raise ServerError(f"{host} answers with XML that no S3 server sends", temporary=False)


_UNKNOWN_KEY = "the access key is unknown to the server: check AWS_ACCESS_KEY_ID in the Secret"
_CREDENTIALS = {
    "InvalidAccessKeyId": _UNKNOWN_KEY,
    "XAdminUserNotFound": _UNKNOWN_KEY,  # versitygw's code, with status 404
    "SignatureDoesNotMatch": "the signature does not match: check AWS_SECRET_ACCESS_KEY in the Secret, "
    "and source.region",
    "InvalidToken": "the session token is refused: check AWS_SESSION_TOKEN in the Secret",
    "InvalidIdentityToken": "STS does not trust the ServiceAccount's token: check the role's OIDC provider",
}
# Temporary errors: keys of roles renew themselves, and clocks get corrected.
_FOR_NOW = {
    "ExpiredToken": "the session token has expired: renew the Secret, unless a role's keys renew themselves",
    "ExpiredTokenException": "the ServiceAccount's token has expired",
    "TokenRefreshRequired": "the session token has expired: renew the Secret, unless a role's keys renew themselves",
    "RequestTimeTooSkewed": "the clocks of the node and of the server differ too much: set the node's clock",
}
# SlowDown of AWS, MinIO, Ceph and most servers; further codes that AWS's SDKs retry; ServerBusy and similar codes of
# gateways. MinIO's SlowDownRead does not belong here: it means missing disks, where fewer requests do not help.
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
_LIMIT_EXCEEDED = "LimitExceeded"  # suffix of Alibaba's codes: TotalQpsLimitExceeded, DownloadTrafficRateLimitExceeded
_GRANT = "grant s3:ListBucket and s3:GetObject to this identity"
_NO_CREDENTIALS = (
    "no credentials were found in the environment, ~/.aws, SSO or the node's role: name a Secret or a ServiceAccount "
    "in source.credentials"
)
_WRONG_REGION = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"})
_NOT_IMPLEMENTED = 501
_GONE = frozenset({"", "NoSuchKey", "NoSuchVersion", "404"})
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(?:\d+|\*)")
_ENCRYPTION_WITHOUT_MD5 = ("aws:kms", "aws:kms:dsse")
_FIELD = re.compile(r"<(Code|Message|Region)>([^<]*)</")


class ExpectedRange(NamedTuple):
    """The requested bytes of an object.

    ``what``: s3://bucket/key, for messages; ``etag``: the listed one, empty for any.
    """

    what: str
    offset: int
    length: int
    etag: str


class ResponseHead(NamedTuple):
    """The status of a response to a GET, and the headers that describe its bytes.

    A missing header is empty; ``length`` is None if the server did not state it.
    """

    status: int
    content_range: str
    length: int | None
    etag: str


def check_response(expected: ExpectedRange, got: ResponseHead) -> None:
    """Check that the body has the requested bytes.

    Raises SourceChanged if the object has another ETag, CorruptBody if the range differs.
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
    """Compare the listed ETag with the header. An empty listed ETag matches any. Raises SourceChanged."""
    found = header.removeprefix("W/").strip('"')  # proxies weaken ETags when they touch a header
    if listed and found and found != listed:
        raise SourceChanged(
            f"{what} has the ETag {found} where {listed} was listed: the object changed, refresh the Dataset"
        )


def etag_may_be_md5(encryption: str, customer_algorithm: str) -> bool:
    """Return True if an ETag may be the object's MD5.

    The arguments are the headers x-amz-server-side-encryption and x-amz-server-side-encryption-customer-algorithm.
    """
    return not customer_algorithm and encryption not in _ENCRYPTION_WITHOUT_MD5


@dataclass(frozen=True)
class ErrorResponse:
    """An error response.

    ``region``: the bucket's region, as the server states it; ``retry_after``: seconds.
    """

    status: int
    code: str = ""
    message: str = ""
    region: str = ""
    retry_after: float = 0.0


def parse_error_response(status: int, body: str, region: str, retry_after: str) -> ErrorResponse:
    """Parse a response's body, which is S3's XML or a proxy's page, and two headers.

    ``region``: the header x-amz-bucket-region; ``retry_after``: the header Retry-After. A missing header is empty.
    """
    found = {name: html.unescape(text) for name, text in _FIELD.findall(body)}
    region = region or found.get("Region", "")
    return ErrorResponse(status, found.get("Code", ""), found.get("Message", ""), region, read_retry_after(retry_after))


def read_retry_after(value: str) -> float:
    """Parse Retry-After into seconds. A date, which S3 servers do not use, counts as 0."""
    return float(value) if value.isascii() and value.isdigit() else 0.0


def response_error(response: ErrorResponse, bucket: str, key: str = "") -> SourceError:
    """Make the SourceError of an error response. ``key``: the requested object, empty for a listing."""
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


def without_credentials(error: SourceError) -> SourceError:
    """Return an error with advice for an unsigned request, sent because the node has no credentials."""
    if not isinstance(error, errors.AccessDenied):
        return error
    return errors.AccessDenied(error.message.replace(_GRANT, _NO_CREDENTIALS))


def _is_throttled(response: ErrorResponse) -> bool:
    """Return True if the server is overloaded: by its error code, by status 429, or by status 503 without a code."""
    code, busy = response.code, response.status in (429, 503)
    wordless = code in ("", str(response.status))  # botocore uses the status if the code is missing
    return code in _THROTTLED or response.status == 429 or (busy and (wordless or code.endswith(_LIMIT_EXCEEDED)))


def is_elsewhere(response: ErrorResponse) -> bool:
    """Return True if the response redirects the client to another region or endpoint."""
    return response.code in _WRONG_REGION or response.status in (301, 302, 307, 308)


def name_of(bucket: str, key: str) -> str:
    """Return the name of an object for messages; of the bucket if ``key`` is empty."""
    return f"s3://{bucket}/{key}" if key else f"the bucket {bucket!r}"


def unreachable(endpoint: str, error: Exception) -> SourceError:
    """Make the error of a server that does not answer. ``endpoint``: its name in messages."""
    # The cause of a TimeoutError is a cancellation, which says nothing.
    cause = error if isinstance(error, TimeoutError) else error.__cause__ or error
    if "certificate" in str(cause).lower():
        return untrusted(endpoint, error)
    return errors.EndpointUnreachable(
        f"{endpoint} does not answer ({type(cause).__name__}: {cause}): check source.endpoint, DNS and the network"
    )


def broken_off(endpoint: str, what: str) -> SourceError:
    """Make the error of a connection that ended before the body did."""
    return errors.EndpointUnreachable(
        f"{endpoint} broke off in the middle of {what}: if this persists, check the network"
    )


def untrusted(endpoint: str, error: Exception) -> SourceError:
    """Make the error of an untrusted certificate, or of a server without TLS."""
    if "WRONG_VERSION_NUMBER" in str(error):  # OpenSSL's text for a response that is not TLS
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
    """Return the shorter length of the two headers, since either may be wrong."""
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
        return SourceChanged(f"{what} has changed since it was listed: refresh the Dataset")
    if status == 404 and code in _GONE:
        return errors.ObjectGone(f"{what} was deleted after the listing: refresh the Dataset")
    if code == "InvalidObjectState":
        return errors.InvalidSource(f"{what} is archived: restore it first, or exclude it by source.exclude")
    if status in (401, 403):
        return errors.AccessDenied(f"{what} answers {code or status}: {_GRANT}")
    temporary = (status >= 500 and status != _NOT_IMPLEMENTED) or code == "RequestTimeout"
    return errors.ServerError(
        f"{what} answers {status} {code}: {response.message or 'no reason given'}",
        temporary=temporary,
        retry_after=response.retry_after,
    )
