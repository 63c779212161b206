"""Turns what an S3 server or the network says into the sidecar's errors, each a sentence that says what to do."""

import html
import re
from dataclasses import dataclass

from stoker_sidecar import errors
from stoker_sidecar.errors import SourceError

_UNKNOWN_KEY = "the access key is unknown to the server: check AWS_ACCESS_KEY_ID in the Secret"
_CREDENTIALS = {
    "InvalidAccessKeyId": _UNKNOWN_KEY,
    "XAdminUserNotFound": _UNKNOWN_KEY,  # versitygw's word for it, with status 404
    "SignatureDoesNotMatch": "the signature does not match: check AWS_SECRET_ACCESS_KEY in the Secret, and source.region",
    "InvalidToken": "the session token is refused: check AWS_SESSION_TOKEN in the Secret",
    "InvalidIdentityToken": "STS does not trust the ServiceAccount's token: check the role's OIDC provider",
}
# These heal without a new Secret: keys of roles renew themselves, and clocks are set.
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
class Refusal:
    """An answer that is none of the bytes. ``region``: where the server says the bucket is; ``retry_after``: seconds."""

    status: int
    code: str = ""
    message: str = ""
    region: str = ""
    retry_after: float = 0.0


def read_refusal(status: int, body: str, region: str, retry_after: str) -> Refusal:
    """From an answer's body (S3's XML, or whatever a proxy says) and its headers x-amz-bucket-region and Retry-After."""
    found = {name: html.unescape(text) for name, text in _FIELD.findall(body)}
    region = region or found.get("Region", "")
    return Refusal(status, found.get("Code", ""), found.get("Message", ""), region, read_retry_after(retry_after))


def read_retry_after(value: str) -> float:
    """S3 servers write seconds; the other form, a date, counts as none."""
    return float(value) if value.isascii() and value.isdigit() else 0.0


def refused(refusal: Refusal, bucket: str, key: str = "") -> SourceError:
    """``key``: the object asked for, empty for a listing."""
    what, code = name_of(bucket, key), refusal.code
    if code in _CREDENTIALS:
        return errors.InvalidCredentials(f"{what} refused the credentials ({code}): {_CREDENTIALS[code]}")
    if code in _FOR_NOW:
        return errors.InvalidCredentials(f"{what} refused the credentials ({code}): {_FOR_NOW[code]}", temporary=True)
    if code == "NoSuchBucket":
        return errors.BucketNotFound(
            f"there is no bucket {bucket!r} at the endpoint: check source.uri and source.endpoint"
        )
    if is_elsewhere(refusal):
        return _elsewhere(refusal, what)
    if code in _THROTTLED or refusal.status == 429:
        return errors.Throttled(
            f"{what} answers {code or refusal.status}: the server asks for fewer requests",
            retry_after=refusal.retry_after,
        )
    return _by_status(refusal, what)


def is_elsewhere(refusal: Refusal) -> bool:
    """Whether the answer sends the client to another region or endpoint."""
    return refusal.code in _WRONG_REGION or refusal.status in (301, 302, 307, 308)


def name_of(bucket: str, key: str) -> str:
    """How messages call an object, or a bucket when ``key`` is empty."""
    return f"s3://{bucket}/{key}" if key else f"the bucket {bucket!r}"


def unreachable(endpoint: str, error: Exception) -> SourceError:
    """``endpoint``: as people know it."""
    # The cause of a timeout is the cancellation that it is made of.
    cause = error if isinstance(error, TimeoutError) else error.__cause__ or error
    if "certificate" in str(cause).lower():
        return untrusted(endpoint, error)
    return errors.EndpointUnreachable(
        f"{endpoint} does not answer ({type(cause).__name__}: {cause}): check source.endpoint, DNS and the network"
    )


def broken_off(endpoint: str, what: str) -> SourceError:
    """The connection ended before the body did."""
    return errors.EndpointUnreachable(
        f"{endpoint} broke off in the middle of {what}: if that goes on, check the network and what lies between"
    )


def untrusted(endpoint: str, error: Exception) -> SourceError:
    """TLS without trust, or a server that does not speak it."""
    if "WRONG_VERSION_NUMBER" in str(error):  # OpenSSL's word for an answer that is no TLS
        return errors.EndpointUnreachable(
            f"{endpoint} does not answer in TLS: write http:// in source.endpoint, or have the server speak TLS"
        )
    return errors.EndpointUnreachable(
        f"the TLS certificate of {endpoint} is not trusted ({error}): put its CA into the key ca.crt of the Secret",
        temporary=False,
    )


def _elsewhere(refusal: Refusal, what: str) -> SourceError:
    if refusal.region:
        return errors.InvalidSource(f"{what} is in the region {refusal.region}: set source.region to it")
    return errors.InvalidSource(
        f"{what} is elsewhere ({refusal.status} {refusal.code}: {refusal.message}): set source.region and source.endpoint"
    )


def _by_status(refusal: Refusal, what: str) -> SourceError:
    status, code = refusal.status, refusal.code
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
        f"{what} answers {status} {code}: {refusal.message or 'no reason given'}",
        temporary=temporary,
        retry_after=refusal.retry_after,
    )
