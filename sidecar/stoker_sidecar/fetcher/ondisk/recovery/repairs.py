"""Repair of files that were damaged and fetched again: their old inodes, and the servers of their readers."""

import asyncio
import logging
import os
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from errno import EIO
from pathlib import Path
from types import TracebackType
from typing import Self

from stoker_sidecar.linux.files import disk_errors, is_there, sync_file
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Entry, Manifest

_log = logging.getLogger(__name__)
_READABLE, _WRITABLE = 0o444, 0o644
_PIECE = 1024 * 1024
_SECOND_NAME = re.compile(r"([0-9]{1,10})\.[0-9]+")  # inode of the version, and that of the disk


class Repairs:
    """Repaired files of each version since this process started. Servers of a version follow them."""

    def __init__(self) -> None:
        self._inodes: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._more = asyncio.Event()

    def add(self, uid: str, digest: str, ino: int) -> None:
        """Report that cached state of this file must be refreshed."""
        self._inodes[uid, digest].append(ino)
        self._more.set()
        self._more = asyncio.Event()

    async def follow(self, uid: str, digest: str) -> AsyncIterator[int]:
        """Yield the inodes of repaired files, from the first on, as it happens."""
        told = 0
        while True:
            more = self._more
            for ino in self._inodes.get((uid, digest), [])[told:]:
                told += 1
                yield ino
            await more.wait()


class DamagedFile:
    """The damaged file at ``path``, kept open while its successor takes the name. A context manager; methods block.

    Programs and overlays that opened it keep reading this inode, under any name. So the inode is repaired as well, or
    else emptied. Until then it has a ``second`` name, by which ``left_over`` finds it after a kill.
    """

    def __init__(self, paths: VersionPaths, path: Path, entry: Entry, second: Path | None = None) -> None:
        self._path, self._entry = path, entry
        self._descriptor = _open_for_writing(second or path)
        self._second = second or paths.damaged / f"{entry.ino}.{_number(self._descriptor)}"
        if second is None and self._descriptor >= 0:
            with suppress(OSError):  # on a full disk, say: it is needed only if this process is killed
                paths.damaged.mkdir(exist_ok=True)
                self._second.hardlink_to(path)

    def is_at(self, path: Path) -> bool:
        """Return True if a path names this inode."""
        try:
            return self._descriptor >= 0 and os.path.samestat(path.lstat(), os.fstat(self._descriptor))
        except OSError:
            return False

    def heal(self) -> bool:
        """Copy the new file into the old inode, if there is one. Return True if no reader sees damage now.

        The new file is synced, since the last sync of the tree covers its name.
        """
        try:
            sync_file(self._path)
            if self._descriptor >= 0 and not self.is_at(self._path):
                with self._path.open("rb", buffering=0) as fresh:
                    _copy(fresh.fileno(), self._descriptor, self._entry)
        except OSError as error:
            _log.info("the damaged %s cannot be repaired yet: %s", self._path.name, error.strerror)
            return self._descriptor < 0
        self._settled()
        return True

    def empty(self) -> None:
        """Empty the old inode: reads end there, and mappings get SIGBUS.

        Errors of the disk are logged.
        """
        if self._descriptor < 0:
            return
        try:
            os.ftruncate(self._descriptor, 0)
        except OSError as error:
            _log.warning("processes that have the damaged %s open still read it: %s", self._path.name, error.strerror)
        else:
            self._settled()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _settled(self) -> None:
        with suppress(OSError):
            self._second.unlink(missing_ok=True)


def left_over(paths: VersionPaths) -> list[tuple[str, DamagedFile]]:
    """Open the files whose repair a kill interrupted, each with its path in the tree. Blocks.

    Raises ManifestInvalid and CacheDiskFailed.
    """
    with disk_errors("a damaged file"):
        seconds = list(paths.damaged.iterdir()) if is_there(paths.damaged) else []
    if not seconds:
        return []
    with closing(Manifest.open(paths.manifest)) as manifest:
        return list(_left_over(paths, manifest, seconds))


def _left_over(paths: VersionPaths, manifest: Manifest, seconds: list[Path]) -> Iterator[tuple[str, DamagedFile]]:
    for second in seconds:
        found = _SECOND_NAME.fullmatch(second.name)
        entry = manifest.entry(int(found[1])) if found is not None else None
        if entry is not None and not entry.is_dir:
            path = manifest.path_of(entry)
            yield path, DamagedFile(paths, paths.tree / path, entry, second)


def _open_for_writing(path: Path) -> int:
    """Open a read-only file for writing; -1 if it is missing, or if its disk refuses, which is logged."""
    try:
        path.chmod(_WRITABLE)
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return -1
    except OSError as error:
        _log.warning("processes that have the damaged %s open still read it: %s", path.name, error.strerror)
        return -1
    with suppress(OSError):
        os.fchmod(descriptor, _READABLE)
    return descriptor


def _number(descriptor: int) -> int:
    """Return the disk's number of an open file, which no other has while it is open; 0 for none."""
    return os.fstat(descriptor).st_ino if descriptor >= 0 else 0


def _copy(source: int, target: int, entry: Entry) -> None:
    """Copy a whole file. Raises OSError, also when there is less of it."""
    for offset in range(0, entry.size, _PIECE):
        wanted = min(_PIECE, entry.size - offset)
        if os.pwrite(target, os.pread(source, wanted, offset), offset) != wanted:
            raise OSError(EIO, "it is not whole, or cannot be written whole")
    os.ftruncate(target, entry.size)
    os.utime(target, ns=(entry.mtime_ns, entry.mtime_ns))
    os.fsync(target)  # another version may have a hard link to it
