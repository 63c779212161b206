"""Files on a disk that may be full or fail: errors as ours, replacement in one step, and sync."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from pathlib import Path

from stoker_sidecar.errors import CacheDiskFailed, DiskFull
from stoker_sidecar.linux import libc

FULL = (ENOSPC, EDQUOT)


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turns OSError into DiskFull or CacheDiskFailed; ``what``: the sentence's subject."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull(
                f"{what} cannot be written: the cache disk is full; free space or set cache.quota"
            ) from error
        raise CacheDiskFailed(f"{what} cannot be written to the cache disk: {error.strerror}") from error


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
    """syncfs(2): one call for a whole version, where fsync would be one for each file. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        libc.sync_file_system(descriptor)
    finally:
        os.close(descriptor)
