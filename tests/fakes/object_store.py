"""An object store in memory with faults on demand, which tests and models run against."""

import hashlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from stoker_sidecar.errors import ObjectGone, SourceChanged, SourceError
from stoker_sidecar.store.base import Body, in_chunks
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.version.objects import ListedObject

_CHUNK = 64 * 1024


@dataclass(frozen=True)
class Get:
    """One GET that the store was asked for."""

    path: str
    offset: int
    length: int


def md5_etag(content: bytes) -> str:
    """Return the ETag that S3 gives an object of one part: the MD5 of its content."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@dataclass
class MemoryStore:
    """An ObjectStore that keeps its objects in memory.

    ``put`` and ``delete`` change the source; ``fail`` queues errors for the next requests. ``mangle`` spoils the
    bodies, ``states`` tells the checksum that the store keeps of a content, or None.
    """

    # Path -> content, mtime_ns. Not in its repr, which asyncio's debug mode makes of what a slow callback has.
    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict, repr=False)
    gets: list[Get] = field(default_factory=list)
    faults: deque[SourceError] = field(default_factory=deque)
    mangle: Callable[[str, bytes], bytes] = lambda path, data: data
    etag: Callable[[bytes], str] = md5_etag
    states: Callable[[bytes], Checksum | None] = lambda content: None
    closed: bool = False
    versions: dict[str, bytes] | None = field(default=None, repr=False)  # by path and id; None: the store keeps none

    def put(self, path: str, content: bytes, mtime_ns: int = 0) -> None:
        """Create or replace an object."""
        self.objects[path] = (content, mtime_ns)
        if self.versions is not None:
            self.versions[f"{path}?{len(self.versions)}"] = content

    def delete(self, path: str) -> None:
        """Delete an object. Raises KeyError when it is not there."""
        del self.objects[path]

    def fail(self, error: SourceError, times: int = 1) -> None:
        """Have the next ``times`` requests raise this error."""
        self.faults.extend([error] * times)

    async def list(self) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield one page of all objects."""
        self._fault()
        yield [
            ListedObject(path.encode(), len(content), mtime_ns, self.etag(content), self._latest(path))
            for path, (content, mtime_ns) in self.objects.items()
        ]

    @asynccontextmanager
    async def get_range(
        self,
        path: str,
        offset: int,
        length: int,
        *,
        if_match: str,
        version_id: str = "",
        whole: bool = False,
        ahead: int = 0,
    ) -> AsyncIterator[Body]:
        """See ObjectStore."""
        self.gets.append(Get(path, offset, length))
        content = self._content(path, if_match, version_id)
        stated = self.states(content) if whole else None
        yield Body(in_chunks(_chunks(self.mangle(path, content[offset : offset + length]))), checksum=stated)

    async def checksum(self, path: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """See ObjectStore."""
        return self.states(self._content(path, if_match, version_id))

    async def aclose(self) -> None:
        """Note that it was closed."""
        self.closed = True

    def _latest(self, path: str) -> str:
        ids = [key.rpartition("?")[2] for key in self.versions or () if key.rpartition("?")[0] == path]
        return ids[-1] if ids else ""

    def _content(self, path: str, if_match: str, version_id: str = "") -> bytes:
        self._fault()
        known = {f"{name}?": content for name, (content, _) in self.objects.items()} | (self.versions or {})
        content = known.get(f"{path}?{version_id}")
        if content is None:
            raise ObjectGone(f"{path} was deleted after the listing: refresh the Dataset")
        if if_match and if_match != self.etag(content):
            raise SourceChanged(f"{path} is no longer the object that was listed: refresh the Dataset")
        return content

    def _fault(self) -> None:
        if self.faults:
            raise self.faults.popleft()


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), _CHUNK):
        yield data[start : start + _CHUNK]
