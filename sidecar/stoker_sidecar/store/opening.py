"""Opens object stores: at once, or at the first use and again after a failure."""

import asyncio
from collections.abc import Awaitable, Callable

from stoker_api.datasets.dataset_source import Source
from stoker_api.datasets.origin import origin_names
from stoker_sidecar.store.base import ObjectStore, Retry
from stoker_sidecar.store.buckets.s3 import S3Store
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.location import S3Location, parse_location
from stoker_sidecar.store.core.source_refusal import SourceDenials, SourceRefusal
from stoker_sidecar.store.folders.local import LocalStore, allowed_roots
from stoker_sidecar.threads import in_thread
from stoker_sidecar.wire.credentials import Credentials, FolderGrant

OpenStore = Callable[[Source, Credentials], Awaitable[ObjectStore]]


async def open_store(
    source: Source, credentials: Credentials, settings: ConnectionSettings, retry: Retry
) -> ObjectStore:
    """Open the store of a Dataset's source, by its URI. Raises SourceError.

    A folder must lie beneath a host folder of the grant. Without a grant, as on a single machine, any host folder
    counts.
    """
    location = parse_location(source.uri)
    if isinstance(location, S3Location):
        return await S3Store.connect(source, location, credentials, settings, retry)
    granted = credentials.folders if isinstance(credentials, FolderGrant) else settings.host_folders
    folders = [folder for folder in granted if folder in settings.host_folders]
    return LocalStore(location.path, await in_thread(allowed_roots, location.path, folders))


class StoreHandle:
    """The store of one source for one identity. After a failed opening, the next use opens it again.

    ``refusal``: the state of a source that refuses this identity everything, shared with other handles. ``denials``:
    of single objects.
    """

    def __init__(
        self,
        source: Source,
        credentials: Credentials,
        open_store: OpenStore,
        refusal: SourceRefusal | None = None,
        denials: SourceDenials | None = None,
    ) -> None:
        self.source = source
        self.refusal = refusal or SourceRefusal()
        self.denials = denials or SourceDenials()
        self.origin = origin_names(source)  # names for its request caps; None: no cap
        self.credentials = credentials
        self._open_store = open_store
        self._store: ObjectStore | None = None
        self._lock = asyncio.Lock()

    def serves(self, source: Source, credentials: Credentials) -> bool:
        """Return True for exactly this source and identity. Patterns do not count: they matter to listings only."""
        return (_place(source), credentials) == (_place(self.source), self.credentials)

    async def store(self) -> ObjectStore:
        """Return the store; open it if necessary. Raises SourceError if that fails."""
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
