"""A store that refuses GETs, and a node with a mounted version of it that is not warmed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from stoker_sidecar.errors import InvalidCredentials, SidecarError
from stoker_sidecar.store.base import Body
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import CacheNodeUnderTest, inode

UNKNOWN_KEY = InvalidCredentials("s3://bucket/p/a/000 refused the credentials (InvalidAccessKeyId)")
FILES = {f"{folder}/{number:03}": f"{folder}{number}".encode() for folder in "amz" for number in range(40)}


class RefusingStore(MemoryStore):
    """A store that answers GETs of some paths with an error. ``asked`` has the paths of all GETs."""

    error: SidecarError = UNKNOWN_KEY
    refuses: Callable[[str], bool] = staticmethod(lambda path: True)

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.answers = asyncio.Event()
        self.answers.set()
        for path, content in FILES.items():
            self.put(path, content)

    @asynccontextmanager
    async def get_range(self, path: str, offset: int, length: int, **wanted: Any) -> AsyncIterator[Body]:
        """See ObjectStore."""
        self.asked.append(path)
        await self.answers.wait()
        if self.refuses(path):
            raise self.error
        async with super().get_range(path, offset, length, **wanted) as body:
            yield body


class RefusedNode:
    """A node with a mounted version over a refusing store. The version is not warmed."""

    def __init__(self, cache: CacheNodeUnderTest, store: RefusingStore, digest: str) -> None:
        self.cache, self.store, self.digest = cache, store, digest

    async def read(self, path: str) -> bytes:
        return await self.cache.read(self.digest, inode(self.cache, self.digest, path), 0, len(FILES[path]))

    async def outcomes(self, paths: list[str]) -> set[str]:
        found = set()
        for path in paths:
            try:
                assert await self.read(path) == FILES[path]
                found.add("ok")
            except SidecarError as error:
                found.add(str(error.reason))
        return found

    @property
    def told(self) -> str:
        reads = self.cache.status().failing_reads
        return reads.reason if reads is not None else ""


def under(folder: str) -> list[str]:
    return [path for path in FILES if path.startswith(f"{folder}/")]
