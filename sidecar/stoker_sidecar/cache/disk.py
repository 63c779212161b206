"""The cache disk as a whole: free space, sync, deletion at leisure, and what an unclean stop leaves."""

import ctypes
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import EDQUOT, ENOSPC
from pathlib import Path
from uuid import uuid4

from stoker_sidecar.cache.layout import CachePaths
from stoker_sidecar.core.quota import free_bytes
from stoker_sidecar.errors import CacheDiskFailed, DiskFull

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turns OSError into DiskFull or CacheDiskFailed; ``what``: the sentence's subject."""
    try:
        yield
    except OSError as error:
        if error.errno in (ENOSPC, EDQUOT):
            raise DiskFull(
                f"{what} cannot be written: the cache disk is full; free space or set cache.quota"
            ) from error
        raise CacheDiskFailed(f"{what} cannot be written to the cache disk: {error.strerror}") from error


@dataclass
class Disk:
    """``floor_share`` of the disk, ``floor_most`` bytes at most, is left free. ``clock``: monotonic seconds."""

    paths: CachePaths
    floor_share: float
    floor_most: int
    clock: Callable[[], float]
    _free: int = 0
    _asked: float = field(default=float("-inf"))

    def free(self) -> int:
        """Bytes that new files may take; asked of the kernel once a second at most."""
        now = self.clock()
        if now - self._asked >= 1.0:
            found = os.statvfs(self.paths.root)
            available, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
            self._free, self._asked = free_bytes(available, total, self.floor_share, self.floor_most), now
        return self._free

    def open(self) -> None:
        """Make the folders, empty the trash, and drop what a power cut made doubtful. Blocks."""
        for folder in (self.paths.datasets, self.paths.trash):
            folder.mkdir(parents=True, exist_ok=True)
        for path in self.paths.trash.iterdir():
            shutil.rmtree(path, ignore_errors=True)
        boot = _BOOT_ID.read_text().strip()
        if not self.paths.boot.exists() or self.paths.boot.read_text() != boot:
            self._drop_parts()
            self.paths.boot.write_text(boot)

    def discard(self, folder: Path) -> Callable[[], None]:
        """Rename ``folder`` out of the way now; the result deletes it, which may take long."""
        target = self.paths.trash / uuid4().hex
        if folder.exists():
            folder.rename(target)
        return lambda: shutil.rmtree(target, ignore_errors=True)

    def _drop_parts(self) -> None:
        # A chunk map may have reached the disk before its chunk. Whole files are safe: size and mtime are checked.
        for parts in self.paths.datasets.glob("*/versions/*/parts"):
            shutil.rmtree(parts, ignore_errors=True)


def sync_file_system(folder: Path) -> None:
    """syncfs(2): one call for a whole version, where fsync would be one for each file. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(descriptor)
