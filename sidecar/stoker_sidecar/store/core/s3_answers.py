"""Whether a server's answer to a ranged GET is what was asked for; servers and proxies that ignore a header exist."""

import re
from dataclasses import dataclass

from stoker_sidecar.errors import CorruptBody, SourceChanged

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(?:\d+|\*)")
_ENCRYPTION_WITHOUT_MD5 = ("aws:kms", "aws:kms:dsse")


@dataclass(frozen=True)
class Asked:
    """``what``: s3://bucket/key, for messages; ``etag``: empty when any will do."""

    what: str
    offset: int
    length: int
    etag: str


@dataclass(frozen=True)
class Answered:
    """Headers as they came, empty where there was none; ``length``: None when the server did not say."""

    status: int
    content_range: str
    length: int | None
    etag: str


def check_answer(asked: Asked, got: Answered) -> None:
    """Raises SourceChanged, or CorruptBody when the body would be other bytes than those asked for."""
    check_etag(asked.what, asked.etag, got.etag)
    if (start := _start(got)) != asked.offset:
        raise CorruptBody(
            f"{asked.what}: the server answers {got.status} with the range {got.content_range!r} where bytes "
            f"{asked.offset} to {asked.offset + asked.length - 1} were asked for: a proxy or server ignores Range"
        )
    length = _length(got)
    if length is not None and length != asked.length:
        raise CorruptBody(
            f"{asked.what}: the server offers {length} bytes where {asked.length} were asked for at {start}"
        )


def check_etag(what: str, listed: str, header: str) -> None:
    """``listed``: empty when any will do. Raises SourceChanged when the header names another."""
    found = header.removeprefix("W/").strip('"')  # proxies weaken ETags when they touch a header
    if listed and found and found != listed:
        raise SourceChanged(
            f"{what} has the ETag {found} where {listed} was listed: the object changed, refresh the Dataset"
        )


def etag_may_be_md5(encryption: str, customer_algorithm: str) -> bool:
    """By the headers x-amz-server-side-encryption and x-amz-server-side-encryption-customer-algorithm."""
    return not customer_algorithm and encryption not in _ENCRYPTION_WITHOUT_MD5


def _start(got: Answered) -> int | None:
    if got.status == 200:  # the whole object
        return 0
    found = _CONTENT_RANGE.fullmatch(got.content_range)
    return int(found[1]) if found else None


def _length(got: Answered) -> int | None:
    """The shorter of what the two headers promise, since either may be wrong."""
    found = _CONTENT_RANGE.fullmatch(got.content_range)
    ranged = int(found[2]) - int(found[1]) + 1 if found and got.status == 206 else None
    lengths = [length for length in (ranged, got.length) if length is not None]
    return min(lengths, default=None)
