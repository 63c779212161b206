"""The interface of an object store, and retries of its temporary errors.

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

# Largest body in bytes that is written on the event loop. That takes 50 us; a round trip to a thread takes 100 us.
SMALL = 256 * 1024
# Bytes to collect before a thread writes them. 32 concurrent bodies hold 32 MiB at most.
STEP = 1024 * 1024
# For short disruptions of the source, while a reader waits.
_REQUEST = BackoffPolicy(base=0.2, cap=5.0)
_ATTEMPTS = 4

# Called with the error for which an action waits, and with None when the wait is over.
OnWait = Callable[[SidecarError | None], None]
# Takes the chunks of a body in order. It may block, raises SidecarErrors, and keeps no reference to a chunk.
WriteChunk = Callable[[bytes | memoryview], None]
# Calls the function with every chunk of a body, on the event loop or in a thread. Raises SourceError, and the errors of
# the function. On cancellation, it ends after a running write.
Stream = Callable[[WriteChunk], Awaitable[None]]


class Body(NamedTuple):
    """The body of a GET. Call ``stream`` once at most.

    ``etag_may_be_md5`` is False if the server states that the ETag is no MD5 (SSE-KMS, SSE-C). ``checksum``: the
    server's checksum of these bytes, or None.
    """

    stream: Stream
    etag_may_be_md5: bool = True
    checksum: Checksum | None = None


def no_matter(error: SidecarError | None) -> None:
    """Ignore a wait."""


class ObjectStore(Protocol):
    """A source folder in an object store.

    Every failure is a SourceError, whose ``temporary`` says whether a retry can help.
    """

    def list(self, waits: OnWait = no_matter) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield pages of all objects below the folder, in any order.

        After the first page, it waits for an outage for up to half an hour, so that the listing resumes where it was.
        It calls ``waits`` with the error, and with None when it resumes.
        """
        ...

    def get_range(
        self, path: str, offset: int, length: int, *, if_match: str, version_id: str = "", whole: bool = False
    ) -> AbstractAsyncContextManager[Body]:
        """GET bytes [offset, offset + length) of the object that has this ETag; ``length`` >= 1. No retries.

        ``whole``: these bytes are all of the object, so the body may come with a checksum. The body may turn out
        short or long. Raises SourceChanged if the object has another ETag, ObjectGone if there is no such object.
        """
        ...

    async def checksum(self, path: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Request the checksum of the whole object that has this ETag; None if the source has none. No retries.

        Raises SourceError. A source may refuse this request even if it serves the bytes.
        """
        ...

    async def multipart_checksum(self, path: str, size: int, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Return the MD5 of parts in the multipart ETag ``if_match`` of an object of ``size`` bytes.

        None if the ETag has none or the size of the parts is unknown. One request, no retries. Raises SourceError.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        ...


@dataclass(frozen=True)
class Retry:
    """Retries an action while its error is temporary, with growing waits.

    ``sleep`` waits for a number of seconds (asyncio's, or a test's). It gives up after ``attempts``; for errors of a
    class in ``patient``, not before it waited ``patience`` seconds in total.
    """

    sleep: Callable[[float], Awaitable[object]]
    uniform: Callable[[], float] = random.random
    backoff: BackoffPolicy = _REQUEST
    attempts: int = _ATTEMPTS
    patience: float = 0.0
    patient: tuple[type[SidecarError], ...] = (SidecarError,)

    async def __call__(self, action: Callable[[], Awaitable[T]], failed: OnWait | None = None) -> T:
        """Return the result of ``action``; raise its last error if all attempts failed or a retry cannot help.

        ``failed`` is called with the error before each wait, and with None once the action succeeds after one.
        """
        attempt, waited = 0, 0.0
        while True:
            try:
                result = await action()
            except SidecarError as error:
                attempt += 1
                patience = self.patience if isinstance(error, self.patient) else 0.0
                if not error.temporary or (attempt >= self.attempts and waited >= patience):
                    raise
                wait = self.backoff.delay(attempt - 1, self.uniform(), error.retry_after)
                if failed is not None:
                    failed(error)
            else:
                if attempt and failed is not None:
                    failed(None)
                return result
            waited += wait
            await self.sleep(wait)


def in_chunks(chunks: AsyncIterator[bytes]) -> Stream:
    """Make the Stream of a body that arrives on the event loop in chunks."""
    return partial(_stream, chunks)


async def _stream(chunks: AsyncIterator[bytes], write: WriteChunk) -> None:
    held: list[bytes] = []
    size, most = 0, SMALL  # a smaller first step, since a reader may wait for the first bytes
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
