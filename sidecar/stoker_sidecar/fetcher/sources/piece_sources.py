"""Sources of pieces: what a version requests, and the process that fetches."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from stoker_sidecar.errors import SourceChanged, SourceError
from stoker_sidecar.fetcher.sources.origin_gate import OriginGate
from stoker_sidecar.store.base import ObjectStore, OnWait, no_matter
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.store.core.source_refusal import Turn
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.version.objects import ListedObject
from stoker_sidecar.worker.transfer import Arrived, Fetched, Piece, PieceProgress, fetch_piece

T = TypeVar("T")


class PieceFetcher(Protocol):
    """Fetches pieces from an object store, in this process or in workers."""

    async def fetch(self, handle: StoreHandle, piece: Piece, arrived: Arrived) -> Fetched:
        """Bring a piece. If cancelled, return once nothing writes to the file.

        Raises SourceError, CorruptBody, DiskFull, CacheDiskFailed.
        """
        ...

    def forget(self, handle: StoreHandle) -> None:
        """Close the connections that worker processes hold for the handle."""
        ...


class InProcess:
    """A PieceFetcher that works in this process: for tests, and for machines with one core."""

    def __init__(self) -> None:
        self._progress = PieceProgress()

    async def fetch(self, handle: StoreHandle, piece: Piece, arrived: Arrived) -> Fetched:
        """Bring a piece: see PieceFetcher."""
        return await fetch_piece(await handle.store(), piece, arrived, self._progress)

    def forget(self, handle: StoreHandle) -> None:
        """Do nothing: the owner of the handle closes its store."""


class StorePieceSource:
    """A dataset's object store, which changes with the Dataset and its credentials.

    ``fetcher`` does the work, once ``gate`` admits it. A running fetch keeps the handle that it began with.
    ``cached``: returns an object of the source that this node has, or None.
    """

    def __init__(self, handle: StoreHandle, fetcher: PieceFetcher, gate: OriginGate) -> None:
        self.handle = handle
        self._fetcher = fetcher
        self._gate = gate
        self.cached: Callable[[], Piece | None] = lambda: None
        self._readable: Piece | None = None  # the last piece that was fetched
        self._checking = asyncio.Lock()
        self.shortest: float | None = None  # seconds of the shortest request for a piece of this source

    async def fetch(self, piece: Piece, arrived: Arrived) -> Fetched:
        """Bring a piece: see PieceFetcher."""
        if not piece.length:  # an empty file is made without asking
            return await self._fetcher.fetch(self.handle, piece, arrived)

        async def fetched(handle: StoreHandle) -> Fetched:
            await self._pass_denials(handle)
            begun = self._gate.clock()
            try:
                answer = await self._fetcher.fetch(handle, piece, arrived)
            except SourceError as error:
                handle.denials.answered(error, self._gate.clock())
                raise
            ended = self._gate.clock()
            handle.denials.answered(None, ended)
            self._readable = piece
            self.shortest = min(ended - begun, self.shortest or math.inf)
            return answer

        return await self._admitted(piece.length, fetched)

    async def checksum(self, piece: Piece) -> Checksum | None:
        """Request the checksum in this process. This happens once per large file, after workers fetched its pieces."""

        async def ask(store: ObjectStore) -> Checksum | None:
            return await store.checksum(piece.key, if_match=piece.etag, version_id=piece.version_id)

        return await self._asked(ask)

    async def multipart_checksum(self, piece: Piece) -> Checksum | None:
        """Ask for the size of the first part in this process: once for a large file that other nodes give."""

        async def ask(store: ObjectStore) -> Checksum | None:
            return await store.multipart_checksum(
                piece.key, piece.size, if_match=piece.etag, version_id=piece.version_id
            )

        return await self._asked(ask)

    async def _asked(self, ask: Callable[[ObjectStore], Awaitable[Checksum | None]]) -> Checksum | None:
        async def asked(handle: StoreHandle) -> Checksum | None:
            return await ask(await handle.store())

        return await self._admitted(0, asked)

    async def _pass_denials(self, handle: StoreHandle) -> None:
        """Let a request go, unless the source denied the last ones and this one has no turn. Raises DeniedEarlier."""
        denials, clock = handle.denials, self._gate.clock
        if not denials.suspects(clock()):
            return
        async with self._checking:  # all requests wait for the result of one check
            if not denials.suspects(clock()) or denials.turn(clock()) is Turn.SEND:
                return
            piece = self._readable or self.cached()
            if piece is not None and not await self._is_readable(handle, piece):
                raise denials.denied_earlier(clock())

    async def _is_readable(self, handle: StoreHandle, piece: Piece) -> bool:
        """Read a byte of an object that was readable. Raises SourceError if the source does not answer."""
        try:
            store = await handle.store()
            async with store.get_range(piece.key, 0, 1, if_match=piece.etag, version_id=piece.version_id):
                pass
        except SourceChanged:  # only an identity that may read it learns this
            pass
        except SourceError as error:
            self._readable = None
            if error.temporary:
                raise
            return False
        handle.denials.checked(self._gate.clock())
        return True

    @property
    def suspected(self) -> bool:
        """True while requests wait for their turn, since the source denied the last objects."""
        return self.handle.denials.suspects(self._gate.clock())

    async def _admitted(self, size: int, ask: Callable[[StoreHandle], Awaitable[T]]) -> T:
        """Ask the source once gate and refusal let the request go. Raises SourceError, also a remembered one."""
        self.handle.refusal.check(self._gate.clock())
        await self._gate.enter(self.handle.origin, size)
        handle = self.handle
        refusal, ticket = handle.refusal, handle.refusal.admit(self._gate.clock())
        try:
            answer = await ask(handle)
        except SourceError as error:
            self._gate.heard(handle.origin, error)
            refusal.answered(ticket, error, self._gate.clock())
            raise
        refusal.answered(ticket, None, self._gate.clock())
        return answer

    async def list(self, waits: OnWait = no_matter) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield pages as ObjectStore does. Each is a request, and the one after it is asked for already."""
        handle = self.handle
        try:
            async for page in (await handle.store()).list(waits):
                await self._gate.enter(handle.origin, 0)
                yield page
        except SourceError as error:
            self._gate.heard(handle.origin, error)
            raise

    async def retire(self, handle: StoreHandle) -> None:
        """Close a handle without running fetches. Idempotent."""
        self._fetcher.forget(handle)
        await handle.aclose()
