"""Asks plug-ins about the first bytes of the first files of each extension that pods open."""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

from stoker_plugins.framework_question import MOST_FILES, FileHead
from stoker_sidecar.agent.questions.plugins.plugin_standing import framework_of, kind_by_plugins
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_tuning.frameworks.answers import PluginAnswer
from stoker_tuning.frameworks.interface import MOST_HEAD
from stoker_tuning.training.layout import DatasetLayout, ModelFile
from stoker_tuning.vocabulary import ModelFileKind

log = logging.getLogger(__name__)
# Seconds between the first open and the question: several files make one question, and reach the disk.
_GATHER = 10.0
_MOST_SEEN = 64  # files per version
_MOST_OF_AN_ENDING = 2
_MOST_PATH = 1024  # characters

# Returns the answers about files, without those of plug-ins that are left out.
AskPlugins = Callable[[list[FileHead]], Awaitable[list[PluginAnswer]]]


class HeadOfFile(NamedTuple):
    """A file of a version with its first bytes."""

    ino: int
    size: int
    file: FileHead


@dataclass
class _SeenFiles:
    """The opened files of one version."""

    inos: set[int] = field(default_factory=set)
    waiting: list[int] = field(default_factory=list)
    layouts: list[DatasetLayout] = field(default_factory=list)
    endings: Counter[str] = field(default_factory=Counter)
    framework: tuple[str, float] = ("", 0.0)


class PluginFiles:
    """Asks plug-ins about files that pods open. Call ``run``. Not thread-safe."""

    def __init__(
        self,
        folders: CacheFolders,
        ask: AskPlugins,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._folders = folders
        self._ask_plugins = ask
        self._sleep = sleep
        self._versions: dict[VersionKey, _SeenFiles] = {}
        self._opened = Changes()

    @property
    def frameworks(self) -> Mapping[VersionKey, str]:
        """The framework of each version's files, if a plug-in is sure of one."""
        return {version: seen.framework[0] for version, seen in self._versions.items() if seen.framework[0]}

    def opened(self, version: VersionKey, layout: DatasetLayout, ino: int) -> None:
        """Note that a file was opened. Called for every access, mostly of known files."""
        seen = self._versions.get(version)
        if seen is None:
            seen = self._versions[version] = _SeenFiles()
        if not any(one is layout for one in seen.layouts):
            seen.layouts.append(layout)
        if len(seen.inos) >= _MOST_SEEN or ino in seen.inos:
            return
        seen.inos.add(ino)
        seen.waiting.append(ino)
        self._opened.mark()

    def retain(self, versions: Collection[VersionKey]) -> None:
        """Forget other versions."""
        self._versions = {version: seen for version, seen in self._versions.items() if version in versions}

    async def run(self) -> None:
        """Ask about opened files, version by version, until cancelled."""
        while True:
            token = self._opened.token()
            waiting = [version for version, seen in self._versions.items() if seen.waiting]
            if not waiting:
                await self._opened.wait(token)
                continue
            await self._sleep(_GATHER)
            for version in waiting:
                await self._ask(version)

    async def _ask(self, version: VersionKey) -> None:
        seen = self._versions.get(version)
        if seen is None:  # unmounted
            return
        inos, seen.waiting = seen.waiting, []
        try:
            heads = await in_thread(self._read, version, inos, dict(seen.endings))
        except (OSError, SidecarError, ValueError) as error:
            log.debug("plug-ins are not asked about version %s of dataset %s: %s", version[1][:12], version[0], error)
            return
        seen.endings.update(_ending(head.file.path) for head in heads)
        for at in range(0, len(heads), MOST_FILES):
            part = heads[at : at + MOST_FILES]
            _take(seen, part, await self._ask_plugins([head.file for head in part]))

    def _read(self, version: VersionKey, inos: list[int], endings: Mapping[str, int]) -> list[HeadOfFile]:
        paths = self._folders.paths(*version)
        if paths is None:
            return []
        return self._folders.read(partial(read_heads, inos=inos, endings=endings), paths)


def read_heads(paths: VersionPaths, inos: list[int], endings: Mapping[str, int]) -> list[HeadOfFile]:
    """Return the first bytes of files that are on the disk, two per extension. Raises SidecarError and OSError.

    ``endings``: how many files of each extension earlier calls returned. Follows no link.
    """
    found: list[HeadOfFile] = []
    counts = Counter(endings)
    with closing(Manifest.open(paths.manifest)) as manifest:
        for ino in inos:
            entry = manifest.entry(ino)
            if entry is None or entry.is_dir:
                continue
            path = manifest.path_of(entry)
            if counts[_ending(path)] >= _MOST_OF_AN_ENDING or len(path) > _MOST_PATH:
                continue
            try:
                head = head_of(paths, path)
            except OSError:  # not on the disk: another file of its extension will be
                continue
            counts[_ending(path)] += 1
            found.append(HeadOfFile(ino, entry.size, FileHead(path, head)))
    return found


def head_of(paths: VersionPaths, path: str) -> bytes:
    """Return the first bytes of a file that is on the disk. Follows no link. Raises OSError."""
    descriptor = open_file_beneath(paths.root, paths.tree / path)
    try:
        return os.pread(descriptor, MOST_HEAD, 0)
    finally:
        os.close(descriptor)


def _take(seen: _SeenFiles, heads: list[HeadOfFile], answers: list[PluginAnswer]) -> None:
    seen.framework = max(seen.framework, framework_of(answers), key=lambda one: one[1])
    for number, (ino, size, (path, head)) in enumerate(heads):
        kind = kind_by_plugins(path, head, number, answers)
        if kind is not ModelFileKind.UNKNOWN:
            for layout in seen.layouts:
                layout.becomes_model(ino, ModelFile(path, kind, size))


def _ending(path: str) -> str:
    return PurePosixPath(path).suffix.lower()
