"""Whether a response to a GET is what was asked for, since servers and proxies that ignore a header exist."""

import re
from dataclasses import dataclass

from stoker_sidecar.errors import CorruptBody, SourceChanged

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(?:\d+|\*)")
_ENCRYPTION_WITHOUT_MD5 = ("aws:kms", "aws:kms:dsse")


@dataclass(frozen=True)
class ExpectedRange:
    """The bytes of an object that were asked for.

    ``what``: s3://bucket/key, for messages; ``etag``: the one that was listed, empty when any will do.
    """

    what: str
    offset: int
    length: int
    etag: str


@dataclass(frozen=True)
class ResponseHead:
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
