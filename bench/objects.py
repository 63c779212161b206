"""Puts objects under a bucket of the server, in the server's own format."""

import hashlib
import json
import os
import random
import struct
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

from awscrt.checksums import crc64nvme

from bench.scale import Corpus

# The attributes where versitygw's posix backend keeps an object's ETag and its uploaded checksum.
_ETAG = "user.etag"
_CHECKSUMS = "user.checksums"
# Random bytes that all objects are cut from: incompressible, and made only once.
_POOL_BYTES = 1024 * 1024
# Bytes of a safetensors header per tensor, with blanks at its end.
_TENSOR_HEAD = 256
# Larger objects repeat the pool. Each starts with its own number, so that all are different.
_HEAD_BYTES = 16


def write_objects(bucket: Path, prefix: str, corpus: Corpus) -> None:
    """Fill ``bucket``/``prefix`` with the corpus. The same corpus always has the same bytes."""
    bodies = Bodies(corpus)
    for number, path in enumerate(paths(corpus)):
        target = bucket / prefix / path
        if number % -(-corpus.files // corpus.folders) == 0:
            target.parent.mkdir(parents=True, exist_ok=True)
        write_object(target, bodies.of(number), checksums=corpus.checksums)


class Bodies:
    """The bodies of a corpus's objects: the same bytes in every process."""

    def __init__(self, corpus: Corpus) -> None:
        # The pool twice, so that a full pool follows every offset.
        self._pool = random.Random(corpus.files).randbytes(_POOL_BYTES) * 2
        self._size = corpus.size
        self._corpus = corpus

    def of(self, number: int) -> bytes:
        """Return the body of the object with this number in ``paths``."""
        start = number * 61 % _POOL_BYTES  # a prime stride, so that adjacent objects differ everywhere
        whole, part = divmod(max(0, self._size - _HEAD_BYTES), _POOL_BYTES)
        turned = self._pool[start : start + (_POOL_BYTES if whole else part)]
        body = (b"%0*d" % (_HEAD_BYTES, number))[: self._size] + turned * whole + turned[:part]
        head = _tensors_head(self._corpus, number) if self._corpus.tensors else b""
        return head + body[len(head) :] if head else body


def paths(corpus: Corpus) -> Iterator[str]:
    """Yield the paths below the prefix, folder by folder. Pure."""
    share, suffix = -(-corpus.files // corpus.folders), "safetensors" if corpus.tensors else "bin"
    for number in range(corpus.files):
        yield f"d{number // share:04d}/f{number:07d}.{suffix}"


def tensor_bytes(corpus: Corpus) -> int:
    """Return the bytes of one tensor of a model. Pure."""
    return corpus.size // corpus.tensors - _TENSOR_HEAD


def _tensors_head(corpus: Corpus, number: int) -> bytes:
    """Return the head of a safetensors file of equal tensors, which fill the rest of the file. Pure.

    The files of a model have no tensor in common.
    """
    size, rows = tensor_bytes(corpus), range(corpus.tensors)
    layers = {
        f"layers.{number}.{row}.weight": {
            "dtype": "U8",
            "shape": [size],
            "data_offsets": [row * size, (row + 1) * size],
        }
        for row in rows
    }
    length = corpus.size - corpus.tensors * size - struct.calcsize("<Q")
    return struct.pack("<Q", length) + json.dumps(layers).encode().ljust(length)


def write_object(target: Path, body: bytes, *, checksums: bool) -> None:
    """Write an object with its ETag, and with a checksum if asked, as versitygw stores it."""
    etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
    with target.open("xb", buffering=0) as file:
        rest = memoryview(body)
        while rest:  # one write(2) takes at most 2 GiB less 4 KiB
            rest = rest[file.write(rest) :]
        os.setxattr(file.fileno(), _ETAG, f'"{etag}"'.encode())
        if checksums:
            os.setxattr(file.fileno(), _CHECKSUMS, _stated(body))


def _stated(body: bytes) -> bytes:
    value = b64encode(crc64nvme(body).to_bytes(8, "big")).decode()
    return json.dumps({"Algorithm": "CRC64NVME", "Type": "FULL_OBJECT", "CRC64NVME": value}).encode()
