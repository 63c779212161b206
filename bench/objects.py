"""Puts objects under a bucket of the server, as it would have stored them itself."""

import hashlib
import json
import os
import random
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

from awscrt.checksums import crc64nvme

from bench.scale import Corpus

# Where versitygw's posix backend keeps an object's ETag, and the checksum that came with it.
_ETAG = "user.etag"
_CHECKSUMS = "user.checksums"
# Random bytes that all objects are cut from: incompressible, and made once.
_POOL_BYTES = 1024 * 1024
# Objects that are larger repeat the pool; each begins with its own number, so that no two are alike.
_HEAD_BYTES = 16
_ZEROS = 2**22  # that are hashed at a time


def write_objects(bucket: Path, prefix: str, corpus: Corpus) -> None:
    """Fill ``bucket``/``prefix`` with the corpus. The same corpus always has the same bytes."""
    bodies = Bodies(corpus)
    for number, path in enumerate(paths(corpus)):
        target = bucket / prefix / path
        if number % -(-corpus.files // corpus.folders) == 0:
            target.parent.mkdir(parents=True, exist_ok=True)
        write_object(target, bodies.of(number), checksums=corpus.checksums)


class Bodies:
    """The bodies of a corpus's objects: the same bytes whoever asks."""

    def __init__(self, corpus: Corpus) -> None:
        # Twice, so that every start has a whole turn behind it.
        self._pool = random.Random(corpus.files).randbytes(_POOL_BYTES) * 2
        self._size = corpus.size

    def of(self, number: int) -> bytes:
        """Return the body of the object with this number in ``paths``."""
        return _body(self._pool, number, self._size)


def paths(corpus: Corpus) -> Iterator[str]:
    """Yield the paths below the prefix, folder by folder. Pure."""
    share = -(-corpus.files // corpus.folders)
    for number in range(corpus.files):
        yield f"d{number // share:04d}/f{number:07d}.bin"


def _body(pool: bytes, number: int, size: int) -> bytes:
    start = number * 61 % _POOL_BYTES  # a prime stride, so that neighbours differ throughout
    rest = max(0, size - _HEAD_BYTES)
    whole, part = divmod(rest, _POOL_BYTES)
    turned = pool[start : start + (_POOL_BYTES if whole else part)]
    return (b"%0*d" % (_HEAD_BYTES, number))[:size] + turned * whole + turned[:part]


def write_object(target: Path, body: bytes, *, checksums: bool) -> None:
    etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
    with target.open("xb", buffering=0) as file:
        rest = memoryview(body)
        while rest:  # a write(2) takes 2 GiB less 4 KiB at most
            rest = rest[file.write(rest) :]
        os.setxattr(file.fileno(), _ETAG, f'"{etag}"'.encode())
        if checksums:
            os.setxattr(file.fileno(), _CHECKSUMS, _stated(body))


def write_zeros(target: Path, size: int) -> None:
    """Write an object of zeros, which takes no room; with its MD5."""
    digest, piece = hashlib.md5(usedforsecurity=False), bytes(_ZEROS)
    for offset in range(0, size, _ZEROS):
        digest.update(piece[: size - offset])
    with target.open("xb") as file:
        file.truncate(size)
        os.setxattr(file.fileno(), _ETAG, f'"{digest.hexdigest()}"'.encode())


def _stated(body: bytes) -> bytes:
    value = b64encode(crc64nvme(body).to_bytes(8, "big")).decode()
    return json.dumps({"Algorithm": "CRC64NVME", "Type": "FULL_OBJECT", "CRC64NVME": value}).encode()
