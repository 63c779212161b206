"""An object store in memory with faults on demand, which tests and models run against."""

import hashlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from stoker_sidecar.errors import ObjectGone, SourceChanged, SourceError
from stoker_sidecar.store.base import Body, OnWait, in_chunks, no_matter
from stoker_sidecar.store.core.object_checksum import Checksum, multipart_checksum
from stoker_sidecar.version.objects import ListedObject

_CHUNK = 64 * 1024


@dataclass(frozen=True)
class Get:
    """One GET of the store."""

    path: str
    offset: int
    length: int


def md5_etag(content: bytes) -> str:
    """Return the ETag that S3 gives an object of one part: the MD5 of its content."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def multipart_etag(part_size: int) -> Callable[[bytes], str]:
    """Return the function for the ETag of an S3 object in parts of ``part_size`` bytes."""

    def etag(content: bytes) -> str:
        parts = [content[start : start + part_size] for start in range(0, len(content), part_size)] or [b""]
        return f"{md5_etag(b''.join(bytes.fromhex(md5_etag(part)) for part in parts))}-{len(parts)}"

    return etag


@dataclass
class MemoryStore:
    """An ObjectStore that keeps its objects in memory.

    ``put`` and ``delete`` change the source. ``fail`` queues errors for the next requests. ``mangle`` corrupts the
    bodies. ``states`` returns the stored checksum of a content, or None. ``part_size`` is the answer to a HEAD of the
    first part. 0 means a store without parts. ``heads`` has the paths of HEADs.
    """

    # Path -> content, mtime_ns. Not in its repr, because asyncio's debug mode prints a slow callback's arguments.
    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict, repr=False)
    gets: list[Get] = field(default_factory=list)
    faults: deque[SourceError] = field(default_factory=deque)
    mangle: Callable[[str, bytes], bytes] = lambda path, data: data
    etag: Callable[[bytes], str] = md5_etag
    states: Callable[[bytes], Checksum | None] = lambda content: None
    part_size: int = 0
    heads: list[str] = field(default_factory=list)
    closed: bool = False
    # by path and ID; None: the store has no versions
    versions: dict[str, bytes] | None = field(default=None, repr=False)
    # by function and content: the MD5 of a large object for each GET of a piece would be most of a test's time
    _etags: dict[tuple[Callable[[bytes], str], bytes], str] = field(default_factory=dict, repr=False)

    def put(self, path: str, content: bytes, mtime_ns: int = 0) -> None:
        """Create or replace an object."""
        self.objects[path] = (content, mtime_ns)
        if self.versions is not None:
            self.versions[f"{path}?{len(self.versions)}"] = content

    def delete(self, path: str) -> None:
        """Delete an object. Raises KeyError if it does not exist."""
        del self.objects[path]

    def fail(self, error: SourceError, times: int = 1) -> None:
        """Make the next ``times`` requests raise this error."""
        self.faults.extend([error] * times)

    async def list(self, waits: OnWait = no_matter) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield one page with all objects."""
        self._fault()
        yield [
            ListedObject(path.encode(), len(content), mtime_ns, self._etag_of(content), self._latest(path))
            for path, (content, mtime_ns) in self.objects.items()
        ]

    @asynccontextmanager
    async def get_range(
        self, path: str, offset: int, length: int, *, if_match: str, version_id: str = "", whole: bool = False
    ) -> AsyncIterator[Body]:
        """See ObjectStore."""
        self.gets.append(Get(path, offset, length))
        content = self._content(path, if_match, version_id)
        stated = self.states(content) if whole else None
        yield Body(in_chunks(_chunks(self.mangle(path, content[offset : offset + length]))), checksum=stated)

    async def checksum(self, path: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """See ObjectStore."""
        self.heads.append(path)
        return self.states(self._content(path, if_match, version_id))

    async def multipart_checksum(self, path: str, size: int, *, if_match: str, version_id: str = "") -> Checksum | None:
        """See ObjectStore."""
        self.heads.append(path)
        length = len(self._content(path, if_match, version_id))
        return multipart_checksum(if_match, size, {"content-length": str(min(self.part_size or length, length))})

    async def aclose(self) -> None:
        """Record that it was closed."""
        self.closed = True

    def _latest(self, path: str) -> str:
        ids = [key.rpartition("?")[2] for key in self.versions or () if key.rpartition("?")[0] == path]
        return ids[-1] if ids else ""

    def _content(self, path: str, if_match: str, version_id: str = "") -> bytes:
        self._fault()
        if version_id:
            content = (self.versions or {}).get(f"{path}?{version_id}")
        else:
            content, _ = self.objects.get(path, (None, 0))
        if content is None:
            raise ObjectGone(f"{path} was deleted after the listing: refresh the Dataset")
        if if_match and if_match != self._etag_of(content):
            raise SourceChanged(f"{path} has changed since it was listed: refresh the Dataset")
        return content

    def _etag_of(self, content: bytes) -> str:
        key = (self.etag, content)
        if key not in self._etags:
            self._etags[key] = self.etag(content)
        return self._etags[key]

    def _fault(self) -> None:
        if self.faults:
            raise self.faults.popleft()


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), _CHUNK):
        yield data[start : start + _CHUNK]
