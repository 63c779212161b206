"""What the cache needs of an object store; S3, local folders and the in-memory twin all pass one contract suite."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.version.objects import ListedObject

# Bytes of a body up to which it is taken on the event loop: to write them takes 50 us, a hop into a thread and back 100.
SMALL = 256 * 1024

# Takes the bytes of a body in order. It may block, raises SidecarErrors, and keeps nothing of what it is given.
Write = Callable[[bytes | memoryview], None]
# Gives them; larger bodies than SMALL in a thread. Raises SourceError, and what the Write raises. Cancelled, it ends when no
# one writes any more.
Pour = Callable[[Write], Awaitable[None]]


@dataclass(frozen=True)
class Body:
    """What a GET brings; to be poured once. ``etag_may_be_md5`` is False when the server says that the ETag is none (SSE-KMS, SSE-C).

    ``checksum``: of these bytes, as the server states it; None when it does not.
    """

    pour: Pour
    etag_may_be_md5: bool = True
    checksum: Checksum | None = None


class ObjectStore(Protocol):
    """One source folder. Every failure is a SourceError, whose ``temporary`` says whether a retry can help."""

    def list(self) -> AsyncIterator[Sequence[ListedObject]]:
        """Pages of all objects below the folder, in any order; retries by itself what a retry can help."""
        ...

    def get_range(
        self, path: str, offset: int, length: int, *, if_match: str, version_id: str = "", whole: bool = False
    ) -> AbstractAsyncContextManager[Body]:
        """Bytes [offset, offset + length) of the object that has this ETag; ``length`` >= 1. No retries.

        ``whole``: that is all of it, so the body may come with a checksum. Raises SourceChanged when the ETag is another,
        ObjectGone when there is none. The body may turn out short or long.
        """
        ...

    async def checksum(self, path: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Of the whole object that has this ETag, as the source keeps it; None when it keeps none. No retries.

        Raises SourceError; a source that gives bytes may yet refuse to tell this.
        """
        ...

    async def aclose(self) -> None:
        """Idempotent."""
        ...
