"""The object store as the cache needs it, and how what failed there for a moment is tried again.

S3, local folders and the tests' fake all pass one contract suite.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from stoker_api.backoff import BackoffPolicy
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.objects import ListedObject

T = TypeVar("T")

# Bytes of a body up to which it is written on the event loop: that takes 50 us, a hop into a thread and back 100.
SMALL = 256 * 1024
# Bytes that are collected before a thread writes them: 32 bodies at a time hold 32 MiB at most.
STEP = 1024 * 1024
# The source may hiccup for a moment, and a reader waits meanwhile.
_REQUEST = BackoffPolicy(base=0.2, cap=5.0)
_ATTEMPTS = 4

# Takes the chunks of a body in order. It may block, raises SidecarErrors, and keeps nothing of what it is given.
WriteChunk = Callable[[bytes | memoryview], None]
# Calls the function with every chunk of a body; in a thread when the body is larger than SMALL. Raises SourceError, and
# what the function raises. When cancelled, it ends once nothing is being written any more.
Stream = Callable[[WriteChunk], Awaitable[None]]


class Body(NamedTuple):
    """The body that a GET brings, whose ``stream`` may be called once.

    ``etag_may_be_md5`` is False when the server says that the ETag is no MD5 (SSE-KMS, SSE-C). ``checksum`` is that of
    these bytes as the server states it, None when it states none.
    """

    stream: Stream
    etag_may_be_md5: bool = True
    checksum: Checksum | None = None


class ObjectStore(Protocol):
    """A source folder in an object store.

    Every failure is a SourceError, whose ``temporary`` says whether a retry can help.
    """

    def list(self) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield pages of all objects below the folder, in any order; what a retry can help is tried again."""
        ...

    def get_range(
        self,
        path: str,
        offset: int,
        length: int,
        *,
        if_match: str,
        version_id: str = "",
        whole: bool = False,
        ahead: int = 0,
    ) -> AbstractAsyncContextManager[Body]:
        """GET bytes [offset, offset + length) of the object that has this ETag; ``length`` >= 1. No retries.

        ``whole``: these bytes are all of the object, so the body may come with a checksum. ``ahead``: the object has so
        many bytes behind these that are most likely wanted next, from their front: a store may ask for them at once
        and give them to a later call. The body may turn out short or long. Raises SourceChanged when the ETag is
        another, ObjectGone when there is no such object.
        """
        ...

    async def checksum(self, path: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Ask for the checksum of the whole object that has this ETag; None when the source keeps none. No retries.

        Raises SourceError; a source that gives the bytes may still refuse to tell the checksum.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        ...


@dataclass(frozen=True)
class Retry:
    """Tries an action again while its error is temporary, with growing waits.

    ``sleep`` waits that many seconds (asyncio's, or a test's).
    """

    sleep: Callable[[float], Awaitable[object]]
    uniform: Callable[[], float] = random.random
    backoff: BackoffPolicy = _REQUEST
    attempts: int = _ATTEMPTS

    async def __call__(self, action: Callable[[], Awaitable[T]]) -> T:
        """Return the result of ``action``; raise its last error when all attempts failed or a retry cannot help."""
        for attempt in range(self.attempts - 1):
            try:
                return await action()
            except SidecarError as error:
                if not error.temporary:
                    raise
                wait = self.backoff.delay(attempt, self.uniform(), error.retry_after)
            await self.sleep(wait)
        return await action()


def in_chunks(chunks: AsyncIterator[bytes]) -> Stream:
    """Make the Stream of a body that arrives on the event loop in chunks."""
    return partial(_stream, chunks)


async def _stream(chunks: AsyncIterator[bytes], write: WriteChunk) -> None:
    held: list[bytes] = []
    size, most = 0, SMALL  # the first bytes sooner, since a reader may wait for just those
    async for data in chunks:
        held.append(data)
        size += len(data)
        if size > most:
            await in_thread(_write_all, held, write)
            held, size, most = [], 0, STEP
    if most == SMALL:
        _write_all(held, write)
    else:
        await in_thread(_write_all, held, write)


def _write_all(held: Iterable[bytes], write: WriteChunk) -> None:
    for data in held:
        write(data)
