"""An object store in memory with one rate limit for all answers."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from bench.proxy import Link
from e2e.support.forgery import crc64nvme
from stoker_sidecar.errors import ObjectGone
from stoker_sidecar.store.base import Body, OnWait, in_chunks, no_matter
from stoker_sidecar.store.core.object_checksum import Checksum, multipart_checksum
from stoker_sidecar.version.objects import ListedObject

_BLOCK = 64 * 1024
_PART = 5 * 2**20  # bytes per part of multipart objects


def _etag(content: bytes) -> str:
    if len(content) <= _PART:
        return hashlib.md5(content, usedforsecurity=False).hexdigest()
    digest = Checksum("md5", b"", _PART).new_digest()
    digest.update(content)
    return f"{digest.digest().hex()}-{-(-len(content) // _PART)}"


class RatedSource:
    """An ObjectStore in memory whose answers share this rate in bytes per second (0: no limit).

    As in S3, small objects have MD5s as ETags. Larger ones have multipart ETags and a CRC-64/NVME. ``sent`` is in
    bytes.
    """

    def __init__(self, objects: Mapping[str, bytes], rate: float = 0.0) -> None:
        self._objects = objects
        self._etags = {path: _etag(content) for path, content in objects.items()}
        self._line = Link(rate)
        self.sent = 0

    async def list(self, waits: OnWait = no_matter) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield one page with all objects."""
        yield [
            ListedObject(path.encode(), len(content), 10**18, self._etags[path], "")
            for path, content in self._objects.items()
        ]

    @asynccontextmanager
    async def get_range(
        self, path: str, offset: int, length: int, *, if_match: str, version_id: str = "", whole: bool = False
    ) -> AsyncIterator[Body]:
        """Yield the bytes at the limited rate."""
        if path not in self._objects or if_match != self._etags[path]:
            raise ObjectGone(f"{path} is not in this source")
        yield Body(in_chunks(self._stream(self._objects[path][offset : offset + length])))

    async def checksum(self, path: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Return the CRC of a multipart object."""
        content = self._objects[path]
        return Checksum("crc64nvme", crc64nvme(content).to_bytes(8)) if len(content) > _PART else None

    async def multipart_checksum(self, path: str, size: int, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Return the size of the parts."""
        return multipart_checksum(if_match, size, {"content-length": str(min(_PART, size))})

    async def aclose(self) -> None:
        """Do nothing."""

    async def _stream(self, content: bytes) -> AsyncIterator[bytes]:
        for at in range(0, len(content), _BLOCK):
            block = content[at : at + _BLOCK]
            self.sent += len(block)
            if (wait := self._line.wait(len(block), time.monotonic())) > 0:
                await asyncio.sleep(wait)
            yield block
