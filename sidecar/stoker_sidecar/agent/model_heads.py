"""What model files are by their bytes: both ends of those that were opened, read in threads held to the caches."""

import logging
import os
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from stoker_sidecar.agent.plugin_files import PluginFiles
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_tuning.model_files.formats import MOST_HEAD, MOST_TAIL
from stoker_tuning.model_files.recognition import recognise
from stoker_tuning.training.layout import DatasetLayout
from stoker_tuning.vocabulary import ModelFileKind

log = logging.getLogger(__name__)
# Files of one version that are looked at, and that wait for it.
_MOST_LOOKS, _MOST_WAITING = 1024, 256
# Looks at one file: it is looked at when it is opened, and may not be on the disk then.
_MOST_TRIES = 3


class _Opened(NamedTuple):
    version: VersionKey
    layout: DatasetLayout
    ino: int


class ModelHeads:
    """Looks at model files when they are opened, and corrects what their names said of them. ``run`` it.

    ``others``: what looks at other files, and at these too.
    """

    def __init__(self, folders: CacheFolders, others: PluginFiles | None = None) -> None:
        self._folders = folders
        self._others = others
        self._tries: dict[VersionKey, dict[int, int]] = {}  # how often each file was looked at
        self._waiting: dict[tuple[VersionKey, int], _Opened] = {}
        self._asked = Changes()

    def opened(self, version: VersionKey, layout: DatasetLayout, ino: int) -> None:
        """Note that a file of a version was opened."""
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
        """Look at what was opened, one file after the other, until cancelled."""
        while True:
            token = self._asked.token()
            key = next(iter(self._waiting), None)
            if key is None:
                await self._asked.wait(token)
                continue
            await self._look(self._waiting.pop(key))

    async def _look(self, opened: _Opened) -> None:
        version, layout, ino = opened
        file, tries = layout.model_files[ino], self._tries.setdefault(version, {})
        tries[ino] = tries.get(ino, 0) + 1
        try:
            kind = await in_thread(self._read, version, file.path)
        except (OSError, SidecarError, ValueError) as error:
            log.debug("the model file %s is not looked at this time: %s", file.path, error)
            return
        tries[ino] = _MOST_TRIES
        if kind is not ModelFileKind.UNKNOWN:
            layout.model_files[ino] = file._replace(kind=kind)

    def _read(self, version: VersionKey, path: str) -> ModelFileKind:
        paths = self._folders.paths(*version)
        if paths is None:
            return ModelFileKind.UNKNOWN
        return self._folders.read(partial(kind_of_file, path=path), paths)


def kind_of_file(paths: VersionPaths, path: str) -> ModelFileKind:
    """Return what a whole file of a version is by 64 KiB of each end. Raises OSError, where it is not on the disk too.

    It follows no link, and loads nothing.
    """
    descriptor = open_file_beneath(paths.root, paths.tree / path)
    try:
        size = os.fstat(descriptor).st_size
        head = os.pread(descriptor, MOST_HEAD, 0)
        tail = os.pread(descriptor, MOST_TAIL, max(0, size - MOST_TAIL))
    finally:
        os.close(descriptor)
    return recognise(path, head, tail).kind
