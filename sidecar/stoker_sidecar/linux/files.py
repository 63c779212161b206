"""Files on a disk that may be full or fail: error mapping, atomic replacement, sync, direct reads."""

import fcntl
import hashlib
import mmap
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EDQUOT, EINVAL, ENOSPC
from pathlib import Path
from typing import Any

from stoker_sidecar.errors import CacheDiskFailed, CacheError, DiskFull
from stoker_sidecar.linux import libc

FULL = (ENOSPC, EDQUOT)
# One read: a multiple of every disk's block, in page-aligned memory, as O_DIRECT requires.
_BLOCK = 4 * 1024 * 1024
# Folder attributes and their ioctl calls, from linux/fs.h. chattr(1) shows this one as T.
_GET_FLAGS, _SET_FLAGS, _TOP_OF_HIERARCHIES = 0x80086601, 0x40086602, 0x00020000


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Convert OSError into DiskFull or CacheDiskFailed. ``what`` is the sentence's subject."""
    try:
        yield
    except OSError as error:
        raise disk_error(what, error) from error


def disk_error(what: str, error: OSError) -> CacheError:
    """Return DiskFull or CacheDiskFailed for an OSError. ``what`` is the sentence's subject."""
    if error.errno in FULL:
        return DiskFull(f"{what} cannot be written: {_why_full(error)}")
    return CacheDiskFailed(f"{what} cannot be written to the cache disk: {error.strerror}")


def _why_full(error: OSError) -> str:
    """Distinguish a disk without inodes from one without bytes: both answer ENOSPC."""
    try:
        inodes = os.statvfs(os.path.dirname(error.filename)) if error.filename else None  # noqa: PTH120 -- str or bytes
    except OSError:
        inodes = None
    if inodes is not None and inodes.f_files and not inodes.f_favail:
        return "the cache disk has no inodes left; delete small files, or make the file system with more inodes"
    return "the cache disk is full; free space or set cache.quota"


def is_there(path: Path) -> bool:
    """Return True if a path exists, following links. Return False on a failing disk.

    Path.exists and similar methods raise on a failing disk (EIO), and most callers can continue without the file.
    """
    try:
        path.stat()
    except OSError:
        return False
    return True


def replace_text(path: Path, text: str) -> None:
    """Write a small file atomically."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text)
    temporary.rename(path)


def replace_durably(path: Path, text: str) -> None:
    """Write a small file atomically and durably against a power cut. Blocks. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text, encoding="utf-8")
    sync_file(temporary)
    temporary.replace(path)
    sync_file(path.parent)  # the folder holds the name


def sync_file(path: Path) -> None:
    """Fsync a file. Blocks. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(folder: Path) -> None:
    """Sync the whole file system with one syncfs(2) instead of an fsync per file. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        libc.sync_file_system(descriptor)
    finally:
        os.close(descriptor)


def have_folders_spread(folder: Path) -> None:
    """Make ext4 place each new subfolder of ``folder``, with its contents, elsewhere on the disk.

    It has no effect on other file systems. On an ext4 without a journal, each new inode skips adjacent inodes that were
    deleted in the last minutes: ten times the CPU for a small file next to a few thousand of them.
    """
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            flags = int.from_bytes(fcntl.ioctl(descriptor, _GET_FLAGS, bytes(4)), sys.byteorder)
            fcntl.ioctl(descriptor, _SET_FLAGS, (flags | _TOP_OF_HIERARCHIES).to_bytes(4, sys.byteorder))
        finally:
            os.close(descriptor)


class DirectReader:
    """A file read directly from the disk, bypassing the page cache, which pods use.

    Call ``step`` until it returns 0; then ``crc`` and ``md5`` cover the whole file. Call ``close`` last. Blocks. Raises
    OSError. Without O_DIRECT (some file systems in memory) it reads normally. ``told`` gets each piece.
    """

    def __init__(self, path: Path, *, md5: bool, told: Callable[[memoryview], object] | None = None) -> None:
        self._descriptor = _open(path)
        self._buffer = mmap.mmap(-1, _BLOCK)
        self._told = told
        self._md5: Any = hashlib.md5(usedforsecurity=False) if md5 else None
        self.size = 0
        self.crc = 0

    @property
    def md5(self) -> str:
        """The MD5 of the read bytes; empty if it was not requested."""
        return str(self._md5.hexdigest()) if self._md5 is not None else ""

    def step(self) -> int:
        """Read the next piece. Return its number of bytes, 0 at the end."""
        length = os.preadv(self._descriptor, [self._buffer], self.size)
        with memoryview(self._buffer)[:length] as piece:
            self.crc = zlib.crc32(piece, self.crc)
            if self._md5 is not None:
                self._md5.update(piece)
            if self._told is not None:
                self._told(piece)
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
