"""Kinds of model files from their bytes: a reader checks both ends of opened files."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from stoker_sidecar.agent.questions.plugins.plugin_files import PluginFiles
from stoker_sidecar.agent.questions.reading.version_reader import VersionReader
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.reader_protocol import MOST_PATHS
from stoker_tuning.training.layout import DatasetLayout
from stoker_tuning.vocabulary import ModelFileKind

log = logging.getLogger(__name__)
# Files of one version to check, and files that wait for a check.
_MOST_LOOKS, _MOST_WAITING = 1024, 256
# Checks of one file: an opened file may not be on the disk yet.
_MOST_TRIES = 3
GATHER_SECONDS = 0.5  # files that a loader opens within this time share a question


class _Opened(NamedTuple):
    version: VersionKey
    layout: DatasetLayout
    ino: int


class ModelHeads:
    """Checks model files when they are opened, and corrects the kinds guessed from their names. ``run`` it.

    ``others`` checks all opened files with plug-ins. ``namespace`` returns the namespace of the Dataset with a UID.
    """

    def __init__(
        self,
        folders: CacheFolders,
        reader: VersionReader,
        others: PluginFiles | None = None,
        namespace: Callable[[str], str] = lambda uid: "",
    ) -> None:
        self._folders = folders
        self._reader = reader
        self._others = others
        self._namespace = namespace
        self._looking: dict[VersionKey, asyncio.Task[None]] = {}
        self._tries: dict[VersionKey, dict[int, int]] = {}  # number of checks of each file
        self._waiting: dict[tuple[VersionKey, int], _Opened] = {}
        self._asked = Changes()

    def opened(self, version: VersionKey, layout: DatasetLayout, ino: int) -> None:
        """Record an opened file of a version."""
        if self._others is not None:
            self._others.opened(version, layout, ino)
        if ino not in layout.model_files:
            return
        tries = self._tries.setdefault(version, {})
        known = ino in tries or len(tries) < _MOST_LOOKS
        if known and tries.get(ino, 0) < _MOST_TRIES and len(self._waiting) < _MOST_WAITING:
            self._waiting[version, ino] = _Opened(version, layout, ino)
            self._asked.mark()

    def retain(self, versions: Collection[VersionKey]) -> None:
        """Forget other versions."""
        self._tries = {version: tries for version, tries in self._tries.items() if version in versions}
        self._waiting = {key: one for key, one in self._waiting.items() if key[0] in versions}
        if self._others is not None:
            self._others.retain(versions)

    async def run(self) -> None:
        """Check opened files, until cancelled. Versions do not wait for each other."""
        try:
            while True:
                token = self._asked.token()
                for version in {version for version, _ in self._waiting} - self._looking.keys():
                    self._looking[version] = asyncio.create_task(self._look(version), name="model files")
                await self._asked.wait(token)
        finally:
            looking = tuple(self._looking.values())
            for one in looking:
                one.cancel()
            await asyncio.gather(*looking, return_exceptions=True)

    async def _look(self, version: VersionKey) -> None:
        """Check the opened files of one version, several per question."""
        try:
            await asyncio.sleep(GATHER_SECONDS)
            keys = [key for key in self._waiting if key[0] == version][:MOST_PATHS]
            await self._ask(version, [self._waiting.pop(key) for key in keys])
        except (OSError, SidecarError) as error:
            log.debug("model files of version %s are not looked at this time: %s", version[1][:12], error)
        finally:
            self._looking.pop(version, None)
            self._asked.mark()

    async def _ask(self, version: VersionKey, opened: Sequence[_Opened]) -> None:
        """Check some files, and correct their kinds. Raises OSError and SidecarError."""
        tries = self._tries.setdefault(version, {})
        for _, _, ino in opened:
            tries[ino] = tries.get(ino, 0) + 1
        paths = self._folders.paths(*version)
        if paths is None:
            return
        files = [layout.model_files[ino] for _, layout, ino in opened]
        kinds = await self._reader.kinds(self._namespace(version[0]), paths, [file.path for file in files])
        for (_, layout, ino), file, kind in zip(opened, files, kinds, strict=True):
            tries[ino] = tries[ino] if kind is None else _MOST_TRIES
            if kind is not None and kind is not ModelFileKind.UNKNOWN:
                layout.model_files[ino] = file._replace(kind=kind)
