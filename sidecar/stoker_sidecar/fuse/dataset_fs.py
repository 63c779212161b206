"""The read-only file system of one dataset version, without kernel code: names from the manifest, bytes from the disk.

The fetcher fetches missing bytes, and the file system reads them from the place in its answer. It never returns zeros
for missing bytes or a mix of two versions. An unreadable file raises FsError with the errno for the reader.
"""

import errno
import logging
import os
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from stoker_sidecar.errors import FsError
from stoker_sidecar.fuse.following_manifest import FollowingManifest
from stoker_sidecar.fuse.open_files import Descriptors, read_at
from stoker_sidecar.fuse.packed_files import PackedFiles
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Entry, Manifest
from stoker_sidecar.wire.fetcher_protocol import ReadDone

_log = logging.getLogger("stoker.fs")
# Cached open files for later reads. A DataLoader's workers have a few dozen open at a time.
_DESCRIPTORS = 256
# Entries kept in memory (about 400 B each, 13 MB at most). An epoch in random order opens each file once, and a SQLite
# query takes as long as the rest of an open.
_ENTRIES = 32_768
# A file may be dropped or moved between the fetcher's answer and the open. Then the request is retried, up to this
# limit.
_ATTEMPTS = 3
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
NAME_MAX = 255

XATTR_KEY = b"user.stoker.key"
XATTR_ETAG = b"user.stoker.etag"
XATTR_VERSION = b"user.stoker.version"


class Fetch(Protocol):
    """Fetches missing bytes onto the disk: the node's fetcher."""

    async def fetch(self, ino: int, offset: int, length: int, *, doubt: bool = False) -> ReadDone:
        """Return when the bytes are at the place in the answer. Raises FsError with the errno for the reader.

        ``doubt`` means that they were not readable at the answered or expected place.
        """
        ...


class Totals(NamedTuple):
    """A version's totals for statfs(2). ``files`` counts files and folders; ``size`` is in bytes."""

    files: int
    size: int


class DatasetFs:
    """The file system of one dataset version.

    Names come from ``manifest``, bytes from ``version_dir``, which holds tree/ and parts/. Inodes are the manifest's,
    so that the next server of the same mount continues with them. ``refused`` is called when a file may not be opened.
    ``descriptors`` is the number of files kept open.
    """

    def __init__(
        self,
        manifest: Manifest | FollowingManifest,
        version_dir: Path,
        fetch: Fetch,
        refused: Callable[[], object] = lambda: None,
        *,
        descriptors: int = _DESCRIPTORS,
    ) -> None:
        self._manifest = manifest
        self._folder = os.fsencode(version_dir)
        self._paths = VersionPaths(version_dir)
        self._fetch = fetch
        self._refused = refused
        self._descriptors = Descriptors(descriptors)
        self._packed = PackedFiles()
        self._entry = lru_cache(_ENTRIES)(manifest.entry)

    def close(self) -> None:
        """Close every descriptor and the manifest."""
        self._descriptors.close()
        self._packed.close()
        self._manifest.close()

    def forget(self, ino: int) -> None:
        """Reopen the file at its next read, because it was repaired."""
        self._descriptors.forget(ino)
        self._packed.forget(ino)

    def lookup(self, parent: int, name: bytes) -> Entry | None:
        """Find the child of that name, or None. Raises FsError ENAMETOOLONG."""
        if len(name) > NAME_MAX:  # FUSE allows four times as many bytes
            raise FsError(errno.ENAMETOOLONG, f"a name of {len(name)} bytes was asked for: {NAME_MAX} are the most")
        return self._manifest.lookup(parent, name)

    def getattr(self, ino: int) -> Entry:
        """Return the entry of an inode. Raises FsError ENOENT if the manifest does not have it."""
        entry = self._entry(ino)
        if entry is None:
            raise FsError(errno.ENOENT, f"inode {ino} is not in the manifest: the mount is of another version")
        return entry

    def opendir(self, ino: int) -> int:
        """Return the handle of the folder: its inode. Raises FsError ENOTDIR, ENOENT."""
        if not self.getattr(ino).is_dir:
            raise FsError(errno.ENOTDIR, f"{self._manifest.path(ino)!r} is a file")
        return ino

    def readdir(self, ino: int, after: int) -> Iterator[Entry]:
        """List the children after the offset ``after`` (0: from the start). A child's offset is its inode."""
        return self._manifest.children(ino, after)

    def open(self, ino: int, flags: int) -> int:
        """Return the handle of the file: its inode. Raises FsError EROFS for any writing flag, EISDIR, ENOENT."""
        if flags & _WRITING:
            raise FsError(errno.EROFS, f"{self._manifest.path(ino)!r} cannot be written: a dataset is read-only")
        if self.getattr(ino).is_dir:
            raise FsError(errno.EISDIR, f"{self._manifest.path(ino)!r} is a folder")
        return ino

    async def read(self, ino: int, offset: int, length: int) -> bytes:
        """Read bytes of the file, fewer than ``length`` only at its end.

        Raises FsError; never returns other bytes than the file's.
        """
        entry = self.getattr(ino)
        length = min(length, entry.size - offset)
        if length <= 0:
            return b""
        data, doubt = None, False
        try:
            data = await self._read_whole(entry, offset, length)
        except OSError as error:
            _log.warning("%s of the cache is damaged: %s", self._manifest.path(ino), error.strerror)
            doubt = True
        return data if data is not None else await self._read_fetched(entry, offset, length, doubt)

    def totals(self) -> Totals:
        """Count files and bytes of the whole version."""
        info = self._manifest.info
        return Totals(info.files + info.directories, info.bytes)

    def listxattr(self, ino: int) -> tuple[bytes, ...]:
        """Return the names of the extended attributes. Only files have any."""
        entry = self.getattr(ino)
        if entry.is_dir:
            return ()
        return (XATTR_KEY, XATTR_ETAG) + ((XATTR_VERSION,) if entry.version_id else ())

    def getxattr(self, ino: int, name: bytes) -> bytes:
        """Read an extended attribute: ``user.stoker.key`` (below the Dataset's prefix), ``.etag``, ``.version``.

        Raises FsError ENODATA.
        """
        if name not in self.listxattr(ino):
            raise FsError(errno.ENODATA, f"inode {ino} has no attribute {name!r}")
        entry = self.getattr(ino)
        if name == XATTR_KEY:
            return self._manifest.path(ino).encode()
        return (entry.etag if name == XATTR_ETAG else entry.version_id).encode()

    async def _read_whole(self, entry: Entry, offset: int, length: int) -> bytes | None:
        """Read from the complete file in tree/, or its compressed copy; None without either.

        Raises OSError if it cannot be read.
        """
        file = "tree/" + self._manifest.path_of(entry)
        try:
            if self._may_open(entry.ino, file):
                return await self._read_file(entry.ino, file, offset, length)
        except FileNotFoundError:
            pass
        copy = self._paths.packed_copy(entry.ino)
        try:
            if os.access(copy, os.F_OK):
                return await self._read_packed(entry, copy, offset, length)
        except FileNotFoundError:
            pass
        return None

    def _may_open(self, ino: int, file: str) -> bool:
        """Return True if an open may succeed.

        In a cold epoch most files are missing, and an exception costs 10 us more.
        """
        return ino in self._descriptors or os.access(os.path.join(self._folder, file.encode()), os.F_OK)  # noqa: PTH118 -- bytes

    async def _read_packed(self, entry: Entry, file: str, offset: int, length: int) -> bytes:
        """Read from the compressed copy. Raises OSError."""
        try:
            return await self._packed.read(file.encode(), entry.ino, entry.size, offset, length)
        except PermissionError:
            self._refused()
            raise

    async def _read_fetched(self, entry: Entry, offset: int, length: int, doubt: bool) -> bytes:
        """Read at the place in the fetcher's answer. Request unreadable bytes again, with doubt."""
        for _ in range(_ATTEMPTS):
            where = await self._ask(entry, offset, length, doubt)
            # A whole file's descriptor serves the next reads without a request, wherever the file lies.
            key = entry.ino if where.place == "tree" else where.file
            try:
                if where.place == "packed":
                    return await self._read_packed(entry, where.file, offset, length)
                data = await self._read_file(key, where.file, offset, length, passes=where.place == "parts")
                if where.place == "parts" and offset + length >= entry.size:
                    self._descriptors.forget(key)  # an open file that was dropped still takes an inode
                return data
            except OSError as error:
                cause, doubt = error.strerror, True
        raise self._failed(entry, errno.EIO, f"the fetcher brought it, but it cannot be read: {cause}")

    async def _read_file(self, key: Hashable, file: str, offset: int, length: int, *, passes: bool = False) -> bytes:
        """Read exactly ``length`` bytes. ``passes`` means that the fetcher may drop and empty the file at any time.

        Raises OSError, also for fewer bytes. Then the descriptor is not used again.
        """
        try:
            with self._descriptors.borrow(key, lambda: self._open_in(file)) as fd:
                data = await read_at(fd, offset, length)
                if passes and os.fstat(fd).st_nlink == 0:  # the fetcher may have emptied it
                    raise OSError(errno.ESTALE, "it was dropped")
            if len(data) < length:
                raise OSError(errno.EIO, f"{len(data)} of {length} bytes at {offset} are in it")
        except OSError:
            self._descriptors.forget(key)
            raise
        return data

    async def _ask(self, entry: Entry, offset: int, length: int, doubt: bool) -> ReadDone:
        try:
            return await self._fetch.fetch(entry.ino, offset, length, doubt=doubt)
        except FsError as error:
            raise self._failed(entry, error.errno, error.message) from error

    def _open_in(self, file: str) -> int:
        """Open ``file``, which is absolute or below the version's folder. Raises OSError."""
        path = os.path.join(self._folder, file.encode())  # noqa: PTH118 -- bytes
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except PermissionError:
            self._refused()
            raise

    def _failed(self, entry: Entry, code: int, cause: str) -> FsError:
        return FsError(code, f"reading {self._manifest.path(entry.ino)!r}: {cause}")
