"""Files on a disk that may be full or fail: our errors, replacement in one step, sync, reads of the disk itself."""

import fcntl
import hashlib
import mmap
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EDQUOT, EINVAL, ENOSPC
from pathlib import Path
from typing import Any

from stoker_sidecar.errors import CacheDiskFailed, CacheError, DiskFull
from stoker_sidecar.linux import libc

FULL = (ENOSPC, EDQUOT)
# One read; a multiple of every disk's block, in memory that is aligned to pages, as O_DIRECT wants.
_BLOCK = 4 * 1024 * 1024
# Attributes of folders and the calls for them, by linux/fs.h; chattr(1) shows this one as T.
_GET_FLAGS, _SET_FLAGS, _TOP_OF_HIERARCHIES = 0x80086601, 0x40086602, 0x00020000


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn OSError into DiskFull or CacheDiskFailed; ``what``: the sentence's subject."""
    try:
        yield
    except OSError as error:
        raise disk_error(what, error) from error


def disk_error(what: str, error: OSError) -> CacheError:
    """Make the DiskFull or CacheDiskFailed that an OSError means; ``what``: the sentence's subject."""
    if error.errno in FULL:
        return DiskFull(f"{what} cannot be written: {_why_full(error)}")
    return CacheDiskFailed(f"{what} cannot be written to the cache disk: {error.strerror}")


def _why_full(error: OSError) -> str:
    """Tell a disk without inodes from one without bytes: both answer ENOSPC."""
    try:
        inodes = os.statvfs(os.path.dirname(error.filename)) if error.filename else None  # noqa: PTH120 -- str or bytes
    except OSError:
        inodes = None
    if inodes is not None and inodes.f_files and not inodes.f_favail:
        return "the cache disk has no inodes left; delete small files, or make the file system with more inodes"
    return "the cache disk is full; free space or set cache.quota"


def is_there(path: Path) -> bool:
    """Tell whether something is at a path, links followed; what a failing disk does not answer for is not there.

    Path.exists and its kin raise on a disk that fails (EIO), and most who ask can go on without it.
    """
    try:
        path.stat()
    except OSError:
        return False
    return True


def replace_text(path: Path, text: str) -> None:
    """Write a small file whole or not at all."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text)
    temporary.rename(path)


def sync_file(path: Path) -> None:
    """Return when the file's bytes are on the disk: fsync(2). Blocks. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(folder: Path) -> None:
    """Return when the whole file system is on the disk: one syncfs(2) in place of an fsync a file. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        libc.sync_file_system(descriptor)
    finally:
        os.close(descriptor)


def have_folders_spread(folder: Path) -> None:
    """Have ext4 lay each folder that is made in ``folder`` from now on, and what is in it, elsewhere on the disk.

    Other file systems are left as they are. Where an ext4 has no journal, each new inode passes over those beside it
    that were deleted within some minutes: ten times the CPU of a small file beside a few thousand of them.
    """
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            flags = int.from_bytes(fcntl.ioctl(descriptor, _GET_FLAGS, bytes(4)), sys.byteorder)
            fcntl.ioctl(descriptor, _SET_FLAGS, (flags | _TOP_OF_HIERARCHIES).to_bytes(4, sys.byteorder))
        finally:
            os.close(descriptor)


class DirectReader:
    """A file that is read from the disk itself, past the page cache, which pods use.

    ``step`` until it returns 0, then ``crc`` and ``md5`` are of the whole file; ``close`` at last. Blocks. Raises
    OSError.
    On file systems that have no O_DIRECT (some that lie in memory) it reads as usual.
    """

    def __init__(self, path: Path, *, md5: bool) -> None:
        self._descriptor = _open(path)
        self._buffer = mmap.mmap(-1, _BLOCK)
        self._md5: Any = hashlib.md5(usedforsecurity=False) if md5 else None
        self.size = 0
        self.crc = 0

    @property
    def md5(self) -> str:
        """The MD5 of what was read; empty when it was not asked for."""
        return str(self._md5.hexdigest()) if self._md5 is not None else ""

    def step(self) -> int:
        """Read on; returns how many bytes, 0 at the end."""
        length = os.preadv(self._descriptor, [self._buffer], self.size)
        with memoryview(self._buffer)[:length] as piece:
            self.crc = zlib.crc32(piece, self.crc)
            if self._md5 is not None:
                self._md5.update(piece)
        self.size += length
        return length

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._buffer.close()
            self._descriptor = -1


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
    except OSError as error:
        if error.errno != EINVAL:
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
