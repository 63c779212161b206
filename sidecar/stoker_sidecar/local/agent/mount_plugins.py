"""The framework plug-ins of one mount: the framework of its files."""

import asyncio
from collections import Counter
from contextlib import closing, suppress
from itertools import islice
from pathlib import PurePosixPath

from stoker_plugins.framework_question import MOST_FILES, FileHead
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins
from stoker_sidecar.agent.questions.plugins.plugin_files import head_of
from stoker_sidecar.agent.questions.plugins.plugin_standing import framework_of
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders

_MOST_LISTED = 100_000  # files of the manifest that are searched for extensions: half a second
_MOST_OF_AN_ENDING = 2
_AGAIN_SECONDS = 60.0  # until the second look, when more files are on the disk


class MountPlugins:
    """Finds the framework of a mount's files by their names, and by the bytes of files on the disk.

    Marks ``changes`` when the framework changes.
    """

    def __init__(self, plugins: NodePlugins, folders: CacheFolders, changes: Changes) -> None:
        self._plugins = plugins
        self._folders = folders
        self._changes = changes
        self.framework = ""

    async def look(self, version: VersionKey) -> None:
        """Ask about the mounted version, now and again after a minute, when more files are on the disk."""
        for wait in (0.0, _AGAIN_SECONDS):
            await asyncio.sleep(wait)
            heads: list[FileHead] = []
            with suppress(OSError, SidecarError, ValueError):  # other parts report a failed disk
                heads = await in_thread(self._sample, version)
            framework, _ = framework_of(await self._plugins.ask(heads)) if heads else ("", 0.0)
            if framework and framework != self.framework:
                self.framework = framework
                self._changes.mark()

    def trouble(self) -> str:
        """Return which plug-ins are left out and why, as a sentence or empty."""
        return "; ".join(
            f"the plug-in {row.name} is left out: {row.message}" for row in self._plugins.rows() if row.message
        )

    def _sample(self, version: VersionKey) -> list[FileHead]:
        paths = self._folders.paths(*version)
        return [] if paths is None else self._folders.read(sample_files, paths)


def sample_files(paths: VersionPaths) -> list[FileHead]:
    """Return two files of each extension, 16 at most. Files that are not on the disk have no bytes.

    Raises SidecarError.
    """
    found: list[FileHead] = []
    endings: Counter[str] = Counter()
    with closing(Manifest.open(paths.manifest)) as manifest:
        for name, entry in islice(manifest.walk(), _MOST_LISTED):
            path = name.decode(errors="replace")
            ending = PurePosixPath(path).suffix.lower()
            if entry.is_dir or endings[ending] >= _MOST_OF_AN_ENDING:
                continue
            endings[ending] += 1
            head = b""
            with suppress(OSError):  # not on the disk
                head = head_of(paths, path)
            found.append(FileHead(path, head))
            if len(found) == MOST_FILES:
                break
    return found
