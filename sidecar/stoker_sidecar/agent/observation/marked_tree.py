"""A mounted tree with marks on its folders, so that the kernel reports opened files. Needs root."""

import fcntl
import logging
import os
import random
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.linux import fanotify
from stoker_sidecar.linux.beneath import open_beneath
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import ROOT_INO, Entry, Manifest

log = logging.getLogger(__name__)

# Maximum number of marked folders of a tree: each costs 10 us per marking, and an inode in the kernel's memory.
MOST_FOLDERS = 1024
# Files drawn to estimate the share of a sample, with an error of 3 points.
_DRAWN = 256


@dataclass(frozen=True)
class FolderSample:
    """Folders of a version: the manifest's inode number and the path below its root.

    ``share`` is their share of its files.
    """

    folders: tuple[tuple[int, bytes], ...]
    share: float


def sample_folders(paths: VersionPaths, most: int = MOST_FOLDERS) -> FolderSample:
    """Choose the folders of a version, always the same ones. Blocks. Raises CacheError."""
    with closing(Manifest.open(paths.manifest)) as manifest:
        if manifest.info.directories <= most:
            inner = ((entry.ino, path) for path, entry in manifest.folders())
            return FolderSample(((ROOT_INO, b""), *inner), 1.0)
        drawn = _drawn_parents(manifest, random.Random(manifest.info.digest))
        chosen = {next(drawn) for _ in range(most)}
        share = sum(next(drawn) in chosen for _ in range(_DRAWN)) / _DRAWN
        return FolderSample(tuple((ino, manifest.path(ino).encode()) for ino in sorted(chosen)), share)


def _drawn_parents(manifest: Manifest, choose: random.Random) -> Iterator[int]:
    """Yield folders of randomly drawn files, so that a folder with more files comes more often.

    Yield the root without files.
    """
    while True:
        entry: Entry | None = manifest.entry(choose.randint(ROOT_INO, manifest.last_ino))
        yield ROOT_INO if entry is None else entry.ino if entry.is_dir else entry.parent


_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class MarkedTree:
    """One tree with its fanotify group. All methods block, a few milliseconds for a thousand folders.

    ``root`` is the folder below which no link is followed, and ``tree`` is the version's root in it. Raises OSError if
    the kernel cannot report its files.
    """

    def __init__(self, root: Path, tree: Path, sample: FolderSample) -> None:
        self._root = root
        self._tree = tree
        self._paths = tuple(path for _, path in sample.folders)
        self.share = sample.share
        self.group = fanotify.open_group()
        try:
            self._try()
            self.table = self._describe(sample)
        except OSError:
            os.close(self.group)
            raise

    def put_on(self) -> float:
        """Mark all existing folders, again or for the first time. Return the CPU seconds used."""
        begun = time.thread_time()
        for folder in self._open_each():
            try:
                fanotify.mark_folder(self.group, folder)
            except OSError as error:  # ENOSPC: the machine's limit of marks
                log.debug("a folder is not watched: %s", error)
            finally:
                os.close(folder)
        return time.thread_time() - begun

    def take_off(self) -> float:
        """Remove the marks. Return the CPU seconds used. Raises OSError."""
        begun = time.thread_time()
        fanotify.clear_marks(self.group)
        return time.thread_time() - begun

    def close(self) -> None:
        """Remove the marks, and close both descriptors."""
        fanotify.clear_marks(self.group)  # the observer may keep the group open for longer
        os.close(self.group)
        os.close(self.table)

    def _try(self) -> None:
        """Mark the tree's root as a test: some file systems refuse it."""
        folder = open_beneath(self._root, self._tree, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fanotify.mark_folder(self.group, folder)
            fanotify.clear_marks(self.group)
        finally:
            os.close(folder)

    def _open_each(self) -> Iterator[int]:
        for path in self._paths:
            try:
                yield open_beneath(self._root, self._tree / os.fsdecode(path), os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                log.debug("the folder %r is not watched: %s", path, error)

    def _describe(self, sample: FolderSample) -> int:
        """Write the handle and inode number of each folder into a memory file for the observer."""
        lines = []
        for ino, path in sample.folders:
            try:
                folder = open_beneath(self._root, self._tree / os.fsdecode(path), os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:  # an empty folder of a version that was dropped and is fetched again
                continue
            try:
                lines.append(b"%s %d\n" % (fanotify.folder_handle(folder).hex().encode(), ino))
            finally:
                os.close(folder)
        table = os.memfd_create("stoker-folders", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.write(table, b"".join(lines))
        fcntl.fcntl(table, fcntl.F_ADD_SEALS, _SEALS)  # the observer reads it, and so does its successor
        return table
