"""Digests of large files that are taken while they come: little is left to read once the last piece is here."""

import asyncio
import os
from dataclasses import dataclass, field

from stoker_sidecar.errors import CacheDiskFailed
from stoker_sidecar.fetcher.download.parts import PartFile, chunk_span
from stoker_sidecar.linux.files import disk_errors
from stoker_sidecar.store.core.object_checksum import Digest, new_digest
from stoker_sidecar.threads import in_thread
from stoker_sidecar.worker.files import file_digest

_READ = 2**20


@dataclass(eq=False)
class _Front:
    """The digest of the first ``chunks`` of a file."""

    part: PartFile
    algorithm: str
    digest: Digest
    chunks: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class FrontDigests:
    """Of one version's files in the making, by inode. One event loop uses it."""

    def __init__(self) -> None:
        self._fronts: dict[int, _Front] = {}

    async def advance(self, part: PartFile, algorithm: str) -> None:
        """Go on as far as its pieces follow each other; what cannot be read is read again in the end."""
        front = self._front(part, algorithm)
        async with front.lock:
            try:
                while not part.taken_back and front.chunks < len(part.chunks) and part.has(front.chunks):
                    await in_thread(_take, front)
            except CacheDiskFailed:
                self.forget(part.ino)

    async def of(self, part: PartFile, algorithm: str) -> bytes:
        """Return the digest of a file of which all pieces are here. Raises CacheDiskFailed.

        Where one of them came anew, what was read before may be another's bytes: all is read once more.
        """
        front = self._front(part, algorithm)
        await self.advance(part, algorithm)
        if front.chunks == len(part.chunks) and not part.taken_back:
            return front.digest.digest()
        return await in_thread(file_digest, part.path, algorithm)

    def forget(self, ino: int) -> None:
        """Forget a file that is whole, or given up."""
        self._fronts.pop(ino, None)

    def _front(self, part: PartFile, algorithm: str) -> _Front:
        front = self._fronts.get(part.ino)
        if front is None or front.part is not part or front.algorithm != algorithm:
            front = self._fronts[part.ino] = _Front(part, algorithm, new_digest(algorithm))
        return front


def _take(front: _Front) -> None:
    """Take in the next piece. Blocks. Raises CacheDiskFailed."""
    offset, left = chunk_span(front.part.size, front.chunks)
    with disk_errors(front.part.path.name), front.part.path.open("rb", buffering=0) as file:
        while left:
            block = os.pread(file.fileno(), min(_READ, left), offset)
            if not block:
                raise CacheDiskFailed(f"{front.part.path.name} is shorter than it was")
            front.digest.update(block)
            offset, left = offset + len(block), left - len(block)
    front.chunks += 1
