"""Where pieces come from: what a version asks for them, and who does the work of a fetch."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from stoker_sidecar.errors import SourceError
from stoker_sidecar.fetcher.download.origin_gate import OriginGate
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.version.objects import ListedObject
from stoker_sidecar.worker.progress import Arrived, PieceProgress
from stoker_sidecar.worker.transfer import Fetched, Piece, fetch_piece


class PieceSource(Protocol):
    """Somewhere pieces can be had. A version asks its sources in turn; the object store is the last and has everything.

    Another node's cache would be one more, before it.
    """

    async def fetch(self, piece: Piece, arrived: Arrived) -> Fetched | None:
        """Bring a piece. None: it is not here, ask the next one.

        Raises SourceError, CorruptBody, DiskFull, CacheDiskFailed.
        """
        ...

    async def checksum(self, piece: Piece) -> Checksum | None:
        """Return what this source states of the whole object that the piece is of; None: nothing.

        Raises SourceError.
        """
        ...


class PieceFetcher(Protocol):
    """Whoever does the work of a fetch from an object store, in this process or in others."""

    async def fetch(self, handle: StoreHandle, piece: Piece, arrived: Arrived) -> Fetched:
        """Bring a piece. Raises as PieceSource does. Cancelled, it returns when no one writes to the file any more."""
        ...

    def forget(self, handle: StoreHandle) -> None:
        """Close the connections that others than this process hold for it."""
        ...


class InProcess:
    """A PieceFetcher that does all in this process: for tests, and where one core is all there is."""

    def __init__(self) -> None:
        self._progress = PieceProgress()

    async def fetch(self, handle: StoreHandle, piece: Piece, arrived: Arrived) -> Fetched:
        """Bring a piece: see PieceFetcher."""
        return await fetch_piece(await handle.store(), piece, arrived, self._progress)

    def forget(self, handle: StoreHandle) -> None:
        """Do nothing: whoever holds the handle closes its store."""


class StorePieceSource:
    """The PieceSource that is a dataset's object store; the store changes with the Dataset and its credentials.

    ``fetcher`` does the work, once ``gate`` lets it. A fetch that has begun stays with the handle that it began with.
    """

    def __init__(self, handle: StoreHandle, fetcher: PieceFetcher, gate: OriginGate) -> None:
        self.handle = handle
        self._fetcher = fetcher
        self._gate = gate

    async def fetch(self, piece: Piece, arrived: Arrived) -> Fetched:
        """Bring a piece: see PieceSource; this one has everything."""
        if piece.length:  # an empty file is made without asking
            await self._gate.enter(self.handle.origin, piece.length)
        handle = self.handle
        try:
            return await self._fetcher.fetch(handle, piece, arrived)
        except SourceError as error:
            self._gate.heard(handle.origin, error)
            raise

    async def checksum(self, piece: Piece) -> Checksum | None:
        """Ask for the checksum in this process: once for a large file, of which only its pieces came through others."""
        await self._gate.enter(self.handle.origin, 0)
        handle = self.handle
        try:
            store = await handle.store()
            return await store.checksum(piece.key, if_match=piece.etag, version_id=piece.version_id)
        except SourceError as error:
            self._gate.heard(handle.origin, error)
            raise

    async def list(self) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield pages as ObjectStore does. Each is a request, and the one after it is asked for already."""
        handle = self.handle
        try:
            async for page in (await handle.store()).list():
                await self._gate.enter(handle.origin, 0)
                yield page
        except SourceError as error:
            self._gate.heard(handle.origin, error)
            raise

    async def retire(self, handle: StoreHandle) -> None:
        """Close a handle that nothing is fetched through any more. Idempotent."""
        self._fetcher.forget(handle)
        await handle.aclose()
