"""The framework plug-ins of one mount: asked which framework its files are of, and for their rules."""

import asyncio
import os
from collections import Counter
from contextlib import closing, suppress
from itertools import islice
from pathlib import PurePosixPath

from stoker_plugins.asking import FileHead
from stoker_sidecar.agent.core.plugin_standing import framework_of
from stoker_sidecar.agent.node_plugins import NodePlugins
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.plugins_protocol import MOST_FILES
from stoker_tuning.frameworks.interface import MOST_HEAD

_MOST_LISTED = 100_000  # files of the manifest among which endings are looked for: half a second
_MOST_OF_AN_ENDING = 2
_AGAIN_SECONDS = 60.0  # until what was not on the disk may be


class MountPlugins:
    """Tells of what framework the files of a mount are, by their names and by the bytes of those that are here.

    ``changes`` are marked when that is another one.
    """

    def __init__(self, plugins: NodePlugins, folders: CacheFolders, changes: Changes) -> None:
        self._plugins = plugins
        self._folders = folders
        self._changes = changes
        self.framework = ""

    async def look(self, version: VersionKey) -> None:
        """Ask about the version that is mounted now, and about what it has on the disk a minute later."""
        for wait in (0.0, _AGAIN_SECONDS):
            await asyncio.sleep(wait)
            heads: list[FileHead] = []
            with suppress(OSError, SidecarError, ValueError):  # a disk that fails is told by others
                heads = await in_thread(self._sample, version)
            framework, _ = framework_of(await self._plugins.ask(heads)) if heads else ("", 0.0)
            if framework and framework != self.framework:
                self.framework = framework
                self._changes.mark()

    def trouble(self) -> str:
        """Return which plug-ins are left out and why, a sentence; empty where none is."""
        return "; ".join(
            f"the plug-in {row.name} is left out: {row.message}" for row in self._plugins.rows() if row.message
        )

    def _sample(self, version: VersionKey) -> list[FileHead]:
        paths = self._folders.paths(*version)
        return [] if paths is None else self._folders.read(sample_files, paths)


def sample_files(paths: VersionPaths) -> list[FileHead]:
    """Return two files of each ending, 16 at most; no bytes where they are not on the disk. Raises SidecarError."""
    found: list[FileHead] = []
    endings: Counter[str] = Counter()
    with closing(Manifest.open(paths.manifest)) as manifest:
        for name, entry in islice(manifest.walk(), _MOST_LISTED):
            path = name.decode(errors="replace")
            ending = PurePosixPath(path).suffix.lower()
            if entry.is_dir or endings[ending] >= _MOST_OF_AN_ENDING:
                continue
            endings[ending] += 1
            found.append(FileHead(path, _head(paths, path)))
            if len(found) == MOST_FILES:
                break
    return found


def _head(paths: VersionPaths, path: str) -> bytes:
    try:
        descriptor = open_file_beneath(paths.root, paths.tree / path)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, MOST_HEAD, 0)
    finally:
        os.close(descriptor)
