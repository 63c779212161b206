"""What a server states of an object's bytes, by a checksum or by an ETag that may be their MD5, and whether it is so.

Most servers' ETag of an object that was put whole is its MD5. Some give 32 hexadecimal digits that are none (S3
Express, SSE-KMS without the header, other makes). One match proves the source. Until then, objects that came twice with
the same other MD5, of right length and under If-Match, show that its ETags are no MD5s.
"""

import binascii
import hashlib
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

# Native code, 32 GB/s on a core for CRC-64/NVME and CRC-32C where the processor can; zlib's CRC-32 alone would not do.
from awscrt import checksums

from stoker_sidecar.errors import CorruptBody

CRC64NVME = "crc64nvme"  # what S3 keeps where the client chose nothing

_Crc = Callable[[bytes | memoryview, int], int]
_CRCS: dict[str, tuple[_Crc, int]] = {  # and bytes of the result
    CRC64NVME: (checksums.crc64nvme, 8),
    "crc32c": (checksums.crc32c, 4),
    "crc32": (checksums.crc32, 4),
}
_HASHES = {"sha256": 32, "sha1": 20}  # bytes of the result
_SIZES = {name: size for name, (_, size) in _CRCS.items()} | _HASHES
_MD5 = re.compile(r"[0-9a-f]{32}")
# Objects that must differ twice before the ETags are taken for something else: one or two might be spoilt on the way.
_DOUBTS = 3


class Checksum(NamedTuple):
    """The checksum of an object.

    ``algorithm`` is as in the name of S3's header, such as ``crc64nvme``; ``value`` has the most significant byte
    first.
    """

    algorithm: str
    value: bytes


class Digest(Protocol):
    """The running computation of a checksum, with hashlib's methods."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Add bytes, in order."""
        ...

    def digest(self) -> bytes:
        """Return the checksum of all bytes so far."""
        ...


def new_digest(algorithm: str) -> Digest:
    """Begin a checksum. ``algorithm``: a Checksum's, or ``md5``. Raises ValueError for others."""
    if algorithm in _CRCS:
        return _RunningCrc(*_CRCS[algorithm])
    return hashlib.new(algorithm, usedforsecurity=False)


def joined_crc64nvme(pieces: Iterable[tuple[bytes, int]]) -> bytes:
    """Compute the CRC-64/NVME of pieces one after the other from each one's own CRC and length in bytes alone."""
    joined = 0
    for value, length in pieces:
        joined = checksums.combine_crc64nvme(joined, int.from_bytes(value, "big"), length)
    return joined.to_bytes(8, "big")


def stated_checksum(headers: Mapping[str, str]) -> Checksum | None:
    """Read the checksum from the headers of a response about a whole object; None when it states none.

    Header names are in lower case, or in any case if the mapping takes any. Only what is said to be of the whole object
    counts: COMPOSITE is a checksum of the parts' checksums, and old servers do not say which of the two they mean. None
    as well for a value that no checksum can have, and for algorithms that are not known here.
    """
    if headers.get("x-amz-checksum-type") != "FULL_OBJECT":
        return None
    for algorithm, size in _SIZES.items():
        if text := headers.get(f"x-amz-checksum-{algorithm}"):
            value = _decoded(text)
            return Checksum(algorithm, value) if len(value) == size else None
    return None


def check(what: str, stated: Checksum, taken: bytes) -> None:
    """Compare what was stated with what was computed; ``what`` is the sentence's subject. Raises CorruptBody."""
    if taken != stated.value:
        raise CorruptBody(
            f"{what}: the body's {stated.algorithm} is {taken.hex()} where the server states {stated.value.hex()}: "
            "it was spoilt on the way"
        )


def looks_like_md5(etag: str) -> bool:
    """Tell whether an ETag has the form of an MD5; multipart ETags end with ``-N``."""
    return _MD5.fullmatch(etag) is not None


@dataclass(frozen=True)
class EtagTrust:
    """What is known about the ETags of one source, which has so many ``objects``."""

    objects: int
    proven: bool = False
    seen: frozenset[tuple[str, str]] = frozenset()  # (ETag, MD5) that differed once
    doubtful: frozenset[str] = frozenset()  # ETags whose objects differed twice in the same way

    def judge(self, etag: str, md5: str) -> tuple[bool, "EtagTrust"]:
        """Decide whether to keep a body with this MD5; also what is known now."""
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
        """Whether these ETags are known to be no MD5s."""
        return not self.proven and len(self.doubtful) >= min(_DOUBTS, self.objects)

    def worth_hashing(self, etag: str) -> bool:
        """Tell whether the MD5 of a body with this ETag proves anything."""
        return not self.opaque and looks_like_md5(etag)


class _RunningCrc:
    """A Digest by a function that goes on from the CRC so far."""

    def __init__(self, function: _Crc, size: int) -> None:
        self._function = function
        self._size = size
        self._crc = 0

    def update(self, data: bytes | memoryview, /) -> None:
        self._crc = self._function(data, self._crc)

    def digest(self) -> bytes:
        return self._crc.to_bytes(self._size, "big")


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        return b""
