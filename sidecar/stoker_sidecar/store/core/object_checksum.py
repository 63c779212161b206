"""Checks an object's bytes by the server's checksum, or by an ETag that may be their MD5, or the MD5 of parts' MD5s.

For most servers, the ETag of an object from a single PUT is its MD5. Some return 32 hexadecimal digits that are not an
MD5 (S3 Express, SSE-KMS without the header, other products). One match proves that a source's ETags are MD5s. Until
then, objects that arrive twice with the same different MD5, with the right length and If-Match, show that they are not.
"""

import binascii
import hashlib
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

# Native code: 32 GB/s on a core for CRC-64/NVME and CRC-32C if the processor supports it. zlib has CRC-32 only.
from awscrt import checksums

from stoker_sidecar.errors import CorruptBody
from stoker_sidecar.store.core.s3_responses import etag_may_be_md5

CRC64NVME = "crc64nvme"  # S3's default

_Crc = Callable[[bytes | memoryview, int], int]
_CRCS: dict[str, tuple[_Crc, int]] = {  # and bytes of the result
    CRC64NVME: (checksums.crc64nvme, 8),
    "crc32c": (checksums.crc32c, 4),
    "crc32": (checksums.crc32, 4),
}
_HASHES = {"sha256": 32, "sha1": 20}  # bytes of the result
# These prove bytes from an untrusted sender: other bytes with the same value are infeasible to make. For a CRC, which
# is linear, they are easy to make.
_CRYPTOGRAPHIC = {"md5", *_HASHES}
_SIZES = {name: size for name, (_, size) in _CRCS.items()} | _HASHES
_MD5 = re.compile(r"[0-9a-f]{32}")
_CONTENT_HASH = re.compile(r"[0-9a-f]{32}(-[0-9]{1,5})?")
# Number of objects that must differ twice before the ETags count as no MD5s. One or two could be corrupt on the way.
_DOUBTS = 3


class Checksum(NamedTuple):
    """The checksum of an object.

    ``algorithm``: as in the name of S3's header, such as ``crc64nvme``, or ``md5``. ``value``: most significant byte
    first. ``part_size``: bytes; if not 0, the value is the MD5 of the MD5s of parts of this size, as in a multipart
    ETag.
    """

    algorithm: str
    value: bytes
    part_size: int = 0

    @property
    def is_cryptographic(self) -> bool:
        """Whether it proves bytes from an untrusted sender."""
        return self.algorithm in _CRYPTOGRAPHIC

    def new_digest(self) -> "Digest":
        """Begin the computation whose result equals ``value`` for the right bytes."""
        return _MultipartMd5(self.part_size) if self.part_size else new_digest(self.algorithm)


class Digest(Protocol):
    """The running computation of a checksum, with hashlib's methods."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Add bytes, in order."""
        ...

    def digest(self) -> bytes:
        """Return the checksum of all bytes so far."""
        ...


def new_digest(algorithm: str) -> Digest:
    """Begin a checksum. ``algorithm``: a Checksum's, or ``md5``. Raises ValueError for an unknown one."""
    if algorithm in _CRCS:
        return _RunningCrc(*_CRCS[algorithm])
    return hashlib.new(algorithm, usedforsecurity=False)


def joined_crc64nvme(pieces: Iterable[tuple[bytes, int]]) -> bytes:
    """Compute the CRC-64/NVME of consecutive pieces from their CRCs and lengths in bytes."""
    joined = 0
    for value, length in pieces:
        joined = checksums.combine_crc64nvme(joined, int.from_bytes(value, "big"), length)
    return joined.to_bytes(8, "big")


def stated_checksum(headers: Mapping[str, str]) -> Checksum | None:
    """Return the checksum in the headers of a response about a whole object, or None.

    Header names are in lower case, or in any case if the mapping ignores case. Only FULL_OBJECT counts: COMPOSITE is a
    checksum of the parts' checksums, and old servers do not state the type. An invalid value or an unknown algorithm
    also returns None.
    """
    if headers.get("x-amz-checksum-type") != "FULL_OBJECT":
        return None
    for algorithm, size in _SIZES.items():
        if text := headers.get(f"x-amz-checksum-{algorithm}"):
            value = _decoded(text)
            return Checksum(algorithm, value) if len(value) == size else None
    return None


def check(what: str, stated: Checksum, taken: bytes) -> None:
    """Compare the stated with the computed checksum. ``what`` is the message's subject. Raises CorruptBody."""
    if taken != stated.value:
        raise CorruptBody(
            f"{what}: the body's {stated.algorithm} is {taken.hex()} where the server states {stated.value.hex()}: "
            "it was spoilt on the way"
        )


def is_content_hash(etag: str) -> bool:
    """Return True if an ETag has the form of a hash: an MD5, or an MD5 of MD5s with the number of parts."""
    return _CONTENT_HASH.fullmatch(etag) is not None


def looks_like_md5(etag: str) -> bool:
    """Return True if an ETag has the form of an MD5. Multipart ETags end with ``-N``."""
    return _MD5.fullmatch(etag) is not None


@dataclass(frozen=True)
class EtagTrust:
    """Evidence on whether the ETags of a source are MD5s. ``objects``: their number in the source."""

    objects: int
    proven: bool = False
    seen: frozenset[tuple[str, str]] = frozenset()  # (ETag, MD5) that differed once
    doubtful: frozenset[str] = frozenset()  # ETags whose objects differed twice in the same way

    def judge(self, etag: str, md5: str) -> tuple[bool, "EtagTrust"]:
        """Return whether to keep a body with this MD5, and the updated evidence."""
        if etag == md5:
            return True, self if self.proven else EtagTrust(self.objects, proven=True)
        if self.proven:
            return False, self
        known = replace(self, seen=self.seen | {(etag, md5)})
        if (etag, md5) in self.seen:
            known = replace(known, doubtful=self.doubtful | {etag})
        return known.opaque, known

    @property
    def opaque(self) -> bool:
        """Whether the evidence shows that the ETags are not MD5s."""
        return not self.proven and len(self.doubtful) >= min(_DOUBTS, self.objects)

    def worth_hashing(self, etag: str) -> bool:
        """Return True if the MD5 of a body with this ETag is worth computing."""
        return not self.opaque and looks_like_md5(etag)


class _RunningCrc:
    """A Digest from a function that continues a CRC."""

    def __init__(self, function: _Crc, size: int) -> None:
        self._function = function
        self._size = size
        self._crc = 0

    def update(self, data: bytes | memoryview, /) -> None:
        self._crc = self._function(data, self._crc)

    def digest(self) -> bytes:
        return self._crc.to_bytes(self._size, "big")


class _MultipartMd5:
    """A Digest: the MD5 of the MD5s of parts of ``part_size`` bytes."""

    def __init__(self, part_size: int) -> None:
        self._part_size = part_size
        self._parts = hashlib.md5(usedforsecurity=False)
        self._part = hashlib.md5(usedforsecurity=False)
        self._left = part_size  # bytes until the part ends

    def update(self, data: bytes | memoryview, /) -> None:
        view = memoryview(data)
        while view:
            taken = view[: self._left]
            self._part.update(taken)
            self._left -= len(taken)
            view = view[len(taken) :]
            if self._left == 0:
                self._end_part()

    def digest(self) -> bytes:
        parts = self._parts.copy()
        if self._left < self._part_size:
            parts.update(self._part.digest())
        return parts.digest()

    def _end_part(self) -> None:
        self._parts.update(self._part.digest())
        self._part = hashlib.md5(usedforsecurity=False)
        self._left = self._part_size


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        return b""


_ETAG = re.compile(r"([0-9a-f]{32})-([1-9][0-9]{0,4})")
_NUMBER = re.compile(r"[0-9]{1,18}")
FIRST_PART = "partNumber=1"  # the query of the HEAD


class MultipartEtag(NamedTuple):
    """A multipart ETag: the MD5 of the MD5s of the parts, a dash, and the number of parts.

    It does not contain the size of the parts. A HEAD with ``partNumber=1`` returns the size of the first part, and all
    parts but the last one have that size. Objects with SSE-KMS or SSE-C have ETags of the same form that are no MD5s.
    """

    md5: bytes
    parts: int


def parse_multipart_etag(etag: str) -> MultipartEtag | None:
    """Parse an ETag without its quotes; None if it is not of a multipart object."""
    match = _ETAG.fullmatch(etag)
    return MultipartEtag(bytes.fromhex(match[1]), int(match[2])) if match else None


def multipart_checksum(etag: str, size: int, headers: Mapping[str, str]) -> Checksum | None:
    """Return the checksum in the ETag of an object of ``size`` bytes, from the headers of a HEAD of its first part.

    None if the ETag is not an MD5 of parts, the parts have several sizes, or the server does not support
    ``partNumber``. Header names are in lower case, or in any case if the mapping ignores case.
    """
    found = parse_multipart_etag(etag)
    part_size = _number(headers.get("content-length", ""))
    encryption = headers.get("x-amz-server-side-encryption", "")
    customer_algorithm = headers.get("x-amz-server-side-encryption-customer-algorithm", "")
    if found is None or part_size <= 0 or not etag_may_be_md5(encryption, customer_algorithm):
        return None
    stated = headers.get("x-amz-mp-parts-count") or str(found.parts)
    if _number(stated) != found.parts or -(-size // part_size) != found.parts:
        return None
    return Checksum("md5", found.md5, part_size)


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0
