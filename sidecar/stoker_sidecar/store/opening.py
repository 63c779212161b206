"""Opens object stores: at once, or when first needed and anew after a failure."""

import asyncio
from collections.abc import Awaitable, Callable

from stoker_api.dataset_source import Source
from stoker_api.origin import origin_names
from stoker_sidecar.store.base import ObjectStore, Retry
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.location import S3Location, parse_location
from stoker_sidecar.store.local import LocalStore, allowed_roots
from stoker_sidecar.store.s3 import S3Store
from stoker_sidecar.threads import in_thread
from stoker_sidecar.wire.credentials import Credentials, FolderGrant

OpenStore = Callable[[Source, Credentials], Awaitable[ObjectStore]]


async def open_store(
    source: Source, credentials: Credentials, settings: ConnectionSettings, retry: Retry
) -> ObjectStore:
    """Open the store that a Dataset's source names by its URI. Raises SourceError.

    A folder is read beneath the host folders that the grant names; without a grant, as on one machine, beneath all.
    """
    location = parse_location(source.uri)
    if isinstance(location, S3Location):
        return await S3Store.connect(source, location, credentials, settings, retry)
    granted = credentials.folders if isinstance(credentials, FolderGrant) else settings.host_folders
    folders = [folder for folder in granted if folder in settings.host_folders]
    return LocalStore(location.path, await in_thread(allowed_roots, location.path, folders))


class StoreHandle:
    """The store of one source for one identity. After a failure it is opened anew when it is asked for again."""

    def __init__(self, source: Source, credentials: Credentials, open_store: OpenStore) -> None:
        self.source = source
        self.origin = origin_names(source)  # what caps it; None: nothing
        self.credentials = credentials
        self._open_store = open_store
        self._store: ObjectStore | None = None
        self._lock = asyncio.Lock()

    def serves(self, source: Source, credentials: Credentials) -> bool:
        """Tell whether this is exactly this source and identity (patterns aside: they only matter to listings)."""
        return (_place(source), credentials) == (_place(self.source), self.credentials)

    async def store(self) -> ObjectStore:
        """Return the store, opened now if need be. Raises SourceError when it cannot be opened."""
        if self._store is None:
            async with self._lock:
                if self._store is None:
                    self._store = await self._open_store(self.source, self.credentials)
        return self._store

    async def aclose(self) -> None:
        """Close the store. Idempotent."""
        if self._store is not None:
            await self._store.aclose()


def _place(source: Source) -> tuple[object, ...]:
    return source.uri, source.endpoint, source.region, source.addressing_style
