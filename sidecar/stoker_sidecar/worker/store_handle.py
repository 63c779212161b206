"""One dataset's connection to its source: opened when first needed, changed when the Dataset or its credentials change."""

import asyncio
from collections.abc import Awaitable, Callable

from stoker_api.dataset import Source
from stoker_sidecar.store.base import ObjectStore
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.wire.credentials import Credentials
from stoker_sidecar.worker.pieces import Arrived, Fetched, Piece, PieceFetcher
from stoker_sidecar.worker.transfer import InProcess

OpenStore = Callable[[Source, Credentials], Awaitable[ObjectStore]]


class SourceHandle:
    """Hands out the store, and pieces that ``fetcher`` brings from it. Not opened again after a failure until asked again."""

    def __init__(
        self, source: Source, credentials: Credentials, open_store: OpenStore, fetcher: PieceFetcher | None = None
    ) -> None:
        self.source = source
        self.credentials = credentials
        self._open_store = open_store
        self._fetcher = fetcher or InProcess()
        self._store: ObjectStore | None = None
        self._lock = asyncio.Lock()

    def serves(self, source: Source, credentials: Credentials) -> bool:
        """Whether this handle is for exactly this source and identity (patterns aside: they only matter to listings)."""
        return (_place(source), credentials) == (_place(self.source), self.credentials)

    async def store(self) -> ObjectStore:
        """Raises SourceError when it cannot be opened."""
        if self._store is None:
            async with self._lock:
                if self._store is None:
                    self._store = await self._open_store(self.source, self.credentials)
        return self._store

    async def fetch(self, piece: Piece, arrived: Arrived) -> Fetched:
        """See PieceSource; this one has everything."""
        return await self._fetcher.fetch(self, piece, arrived)

    async def checksum(self, piece: Piece) -> Checksum | None:
        """See PieceSource. Asked by this process: once for a large file, of which only its pieces came through others."""
        store = await self.store()
        return await store.checksum(piece.key, if_match=piece.etag, version_id=piece.version_id)

    async def aclose(self) -> None:
        """Idempotent."""
        self._fetcher.forget(self)
        if self._store is not None:
            await self._store.aclose()


def _place(source: Source) -> tuple[object, ...]:
    return source.uri, source.endpoint, source.region, source.addressing_style
