"""The factory of object stores."""

from stoker_api.dataset import Source
from stoker_sidecar.store.base import ObjectStore
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.location import S3Location, parse_location
from stoker_sidecar.store.local import LocalStore, allowed_roots
from stoker_sidecar.store.retry import Retry
from stoker_sidecar.store.s3 import S3Store
from stoker_sidecar.threads import in_thread
from stoker_sidecar.wire.credentials import Credentials


async def open_store(
    source: Source, credentials: Credentials, settings: ConnectionSettings, retry: Retry
) -> ObjectStore:
    """Open the store that a Dataset's source names by its URI. Raises SourceError."""
    location = parse_location(source.uri)
    if isinstance(location, S3Location):
        return await S3Store.connect(source, location, credentials, settings, retry)
    return LocalStore(location.path, await in_thread(allowed_roots, location.path, settings.host_folders))
