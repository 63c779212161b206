"""Layouts of mounted versions. A reader computes each one once, from the manifest."""

import asyncio
import logging
from collections.abc import Callable, Collection

from stoker_sidecar.agent.questions.reading.version_reader import VersionReader
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_tuning.training.layout import DatasetLayout

log = logging.getLogger(__name__)

_LayoutKey = tuple[VersionKey, bool]


class DatasetLayouts:
    """The layouts of versions with followed readers. ``run`` it; not thread-safe.

    ``namespace`` returns the namespace of the Dataset with a UID.
    """

    def __init__(
        self, folders: CacheFolders, reader: VersionReader, namespace: Callable[[str], str] = lambda uid: ""
    ) -> None:
        self._folders = folders
        self._reader = reader
        self._namespace = namespace
        self._made: dict[_LayoutKey, DatasetLayout | None] = {}  # None: no layout is possible
        self._wanted: dict[_LayoutKey, None] = {}
        self._making: dict[_LayoutKey, asyncio.Task[None]] = {}
        self._asked = Changes()

    def get(self, version: VersionKey, *, by_chunk: bool) -> DatasetLayout | None:
        """Return a version's layout, or None while it is being computed or if it cannot be."""
        key = version, by_chunk
        if key not in self._made and key not in self._wanted:
            self._wanted[key] = None
            self._asked.mark()
        return self._made.get(key)

    def is_made_now(self, version: VersionKey, *, by_chunk: bool) -> bool:
        """Return True while a version's layout is being computed."""
        return (version, by_chunk) in self._wanted

    def retain(self, versions: Collection[VersionKey]) -> None:
        """Forget the layouts of other versions."""
        self._made = {key: layout for key, layout in self._made.items() if key[0] in versions}
        self._wanted = {key: None for key in self._wanted if key[0] in versions}
        for key, making in self._making.items():
            if key not in self._wanted:
                making.cancel()

    async def run(self) -> None:
        """Compute requested layouts, until cancelled."""
        try:
            while True:
                token = self._asked.token()
                for key in self._wanted.keys() - self._making.keys():
                    self._making[key] = asyncio.create_task(self._make(key), name="layout")
                await self._asked.wait(token)
        finally:
            making = tuple(self._making.values())
            for one in making:
                one.cancel()
            await asyncio.gather(*making, return_exceptions=True)

    async def _make(self, key: _LayoutKey) -> None:
        """Compute one layout. On any error the readers of the version are not followed."""
        version, by_chunk = key
        layout = None
        try:
            paths = self._folders.paths(*version)
            if paths is not None:
                layout = await self._reader.layout(self._namespace(version[0]), paths, by_chunk=by_chunk)
        except (OSError, SidecarError) as error:
            log.warning("readers of version %s of dataset %s are not followed: %s", version[1][:12], version[0], error)
        finally:
            self._making.pop(key, None)
            self._asked.mark()  # it may have been requested again
        if key in self._wanted:
            del self._wanted[key]
            self._made[key] = layout
