"""Lists the warm files of pods' Datasets, in a file in each pod's report folder, while the Datasets are warming."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from stoker_sidecar.agent.pods.report_link import ReportingPods
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.linux.beneath import open_beneath
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.threads import in_thread, to_its_end
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import ROOT_INO, Manifest
from stoker_sidecar.volumes.core.publish import Published, VersionKey
from stoker_sidecar.volumes.versions_on_disk import CacheFolders

MOST_BYTES = 4 * 1024**2  # of a file; a bit for each of 1.3 million files is 160 KB, and the rest are folder names
_SUFFIX, _MOST_NAME = ".warm", 200


def file_name(dataset: str) -> str | None:
    """Return the file name for a Dataset; None if the Dataset's name cannot be a file name."""
    return dataset + _SUFFIX if dataset and len(dataset) <= _MOST_NAME and "/" not in dataset else None


def encode(folders: Iterable[tuple[str, int]], bits: bytes) -> bytes:
    """Encode ``folders`` with the number of files in each, and a bit for each of those files in order.

    Empty if the result is too large.
    """
    header = json.dumps({"v": 1, "folders": list(folders)}, ensure_ascii=False, separators=(",", ":")).encode()
    return header + b"\n" + bits if len(header) + len(bits) < MOST_BYTES else b""


# Pauses for the agent's event loop, as for layouts.
_PACE_FILES, _PACE_SECONDS = 4096, 0.02


class WarmSnapshot(NamedTuple):
    """The warm files at one time: the file for pods, empty if too large; and whether all files are warm."""

    content: bytes
    is_whole: bool


def read_snapshot(paths: VersionPaths, *, ended: Callable[[], bool]) -> WarmSnapshot:
    """Scan a whole version. Blocks, with pauses. Raises CacheError and OSError."""
    is_whole = is_there(paths.complete)
    with closing(Manifest.open(paths.manifest)) as manifest:
        bits, number = bytearray(-(-manifest.info.files // 8)), 0
        folders: list[tuple[str, int]] = []
        for path, ino in _folders(manifest):
            here = None if is_whole else _names(paths, path)
            first = number
            for name in (entry.name for entry in manifest.children(ino) if not entry.is_dir):
                if here is None or name in here:
                    bits[number >> 3] |= 1 << (number & 7)
                number += 1
                if number % _PACE_FILES == 0:
                    time.sleep(_PACE_SECONDS)
            if ended():
                break
            folders += [(path, number - first)] if number > first else []
        return WarmSnapshot(encode(folders, bytes(bits)), is_whole)


def _folders(manifest: Manifest) -> Iterator[tuple[str, int]]:
    yield "", ROOT_INO
    for path, entry in manifest.folders():
        yield path.decode(), entry.ino


def _names(paths: VersionPaths, folder: str) -> Collection[bytes]:
    """Return the names of complete files in a folder. Another user owns the tree, so no link is followed."""
    try:
        opened = open_beneath(paths.root, paths.tree / folder if folder else paths.tree, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # no file of it is here yet
        return ()
    try:
        with os.scandir(opened) as entries:
            return {os.fsencode(entry.name) for entry in entries}
    finally:
        os.close(opened)


def write_beneath(root: Path, folder: str, name: str, content: bytes) -> None:
    """Write a file into a pod's folder below ``root``, atomically. Blocks. Raises OSError.

    The listener may also write there, so links are not followed.
    """
    opened = open_beneath(root, root / folder, os.O_RDONLY | os.O_DIRECTORY)
    fresh = f"{name}.new"
    try:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=opened)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(fresh, flags, 0o644, dir_fd=opened), "wb") as file:
            os.fchmod(file.fileno(), 0o644)  # any user of the pod can read it
            file.write(content)
        os.rename(fresh, name, src_dir_fd=opened, dst_dir_fd=opened)
    finally:
        os.close(opened)


log = logging.getLogger(__name__)
# Seconds between two looks; between two snapshots of a version; and the rest after a snapshot as a multiple of its
# duration: some 2 % of a core, because the snapshot itself pauses.
LOOK_SECONDS, _RENEW_SECONDS, _REST = 5.0, 10.0, 20.0


@dataclass(frozen=True)
class _Taken:
    """A snapshot, and the earliest time of the next one, in seconds of the clock."""

    snapshot: WarmSnapshot
    again: float


class WarmFileList:
    """Writes the lists for all pods of a node. ``run`` it; not thread-safe.

    ``root`` is the parent of the report folders. There is no list for a version that was complete when its pod started:
    all files are warm.
    """

    def __init__(
        self,
        pods: ReportingPods,
        mounted: Callable[[], Iterable[Published]],
        folders: CacheFolders,
        root: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pods = pods
        self._mounted = mounted
        self._folders = folders
        self._root = root
        self._clock = clock
        self._taken: dict[VersionKey, _Taken] = {}
        self._written: dict[tuple[str, str], WarmSnapshot] = {}
        self._ended = False

    async def run(self) -> None:
        """Update periodically, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Update due lists. Errors of one version or pod are logged, and do not affect the rest."""
        reporting = {volume.pod_uid for volume in self._pods.all()}
        wanted: dict[tuple[str, str], VersionKey] = {}
        for row in self._mounted():
            name = file_name(row.request.dataset)
            if row.request.pod_uid in reporting and name is not None:
                wanted.setdefault((row.request.pod_uid, name), (row.uid, row.version))
        self._taken = {key: taken for key, taken in self._taken.items() if key in wanted.values()}
        self._written = {place: snapshot for place, snapshot in self._written.items() if place in wanted}
        for version in dict.fromkeys(wanted.values()):
            await self._renew(version)
        for place, version in wanted.items():
            taken = self._taken.get(version)
            if taken is not None and taken.snapshot != self._written.get(place):
                await self._write(place, taken.snapshot)

    async def _renew(self, version: VersionKey) -> None:
        taken = self._taken.get(version)
        paths = self._folders.paths(*version)
        if paths is None or (taken is not None and (taken.snapshot.is_whole or self._clock() < taken.again)):
            return
        if taken is None and is_there(paths.complete):
            return
        began = self._clock()
        read = partial(read_snapshot, ended=lambda: self._ended)
        try:
            reading = asyncio.ensure_future(asyncio.to_thread(self._folders.go_through, read, paths))
            snapshot = await to_its_end(reading, hurry=self._hurry)
        except (SidecarError, OSError, ValueError) as error:  # a name that is not UTF-8
            log.debug("warm files of version %s cannot be listed: %s", version[1][:12], error)
            return
        now = self._clock()
        self._taken[version] = _Taken(snapshot, now + max(_RENEW_SECONDS, _REST * (now - began)))

    def _hurry(self) -> None:
        self._ended = True

    async def _write(self, place: tuple[str, str], snapshot: WarmSnapshot) -> None:
        self._written[place] = snapshot
        if not snapshot.content:
            return
        try:
            await in_thread(write_beneath, self._root, *place, snapshot.content)
        except OSError as error:
            log.info("the warm file list of pod %s cannot be written: %s", place[0], error)
