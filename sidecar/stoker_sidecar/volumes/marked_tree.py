"""A mounted tree whose folders are marked, so that the kernel reports which of its files are opened. For root."""

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

from stoker_sidecar.linux import fanotify
from stoker_sidecar.linux.beneath import open_beneath
from stoker_sidecar.volumes.watchable_folders import FolderSample

log = logging.getLogger(__name__)

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class MarkedTree:
    """One tree with its fanotify group; all methods block, some milliseconds for a thousand folders.

    ``root``: the folder below which no link is followed; ``tree``: the one that the version's root is, in it. Raises
    OSError when the kernel reports nothing of it.
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
        """Mark the folders that are there now, again or for the first time. Returns the seconds of CPU that it took."""
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
        """Take the marks off. Returns the seconds of CPU that it took. Raises OSError."""
        begun = time.thread_time()
        fanotify.clear_marks(self.group)
        return time.thread_time() - begun

    def close(self) -> None:
        """Take the marks off, and close both descriptors."""
        fanotify.clear_marks(self.group)  # the observer may have the group open for longer
        os.close(self.group)
        os.close(self.table)

    def _try(self) -> None:
        """Mark the tree's root, and no more: some file systems refuse it."""
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
        """Write which handle is which folder into a memory file, as the observer reads it."""
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
        fcntl.fcntl(table, fcntl.F_ADD_SEALS, _SEALS)  # the observer reads it, and the next one after that
        return table
