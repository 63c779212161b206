"""Real file systems of a few megabytes that a test may fill, make read-only, kill and mount again."""

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.linux.mounts.mount_calls import detach
from tests.support.waiting import wait_until

_MIB = 1024**2
# FS_IOC_SHUTDOWN of ext4 and XFS simulates a dead disk: from then on every call on XFS fails with EIO. ext4 still
# answers stat(2) and reads of cached data.
_SHUTDOWN = 0x8004587D
_WITHOUT_JOURNAL = 2
_MAKE = {"ext4": ("mkfs.ext4", "-q", "-F", "-m", "0"), "xfs": ("mkfs.xfs", "-q", "-f")}
_LEAST_MIB = {"ext4": 1, "xfs": 320}  # mkfs.xfs refuses less than 300; the file has holes


def mkfs(kind: str) -> tuple[str, ...]:
    """Return the command that makes a file system of a kind. The device is its last argument."""
    return _MAKE[kind]


def least_mebibytes(kind: str) -> int:
    """Return the smallest disk for this file system."""
    return _LEAST_MIB[kind]


@dataclass(frozen=True)
class SmallDisk:
    """A file system on a file. ``path`` is its mount point."""

    path: Path
    image: Path

    def mount(self) -> None:
        """Mount the disk unchanged. After ``kill``, it has the synced data."""
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.path)], check=True)

    def make_read_only(self, *, really: bool = True) -> None:
        """Make it read-only, as the kernel does after an error. ``really`` False reverts it.

        The kernel would not wait. mount(2) fails while a file is open for writing. Raises TimeoutError.
        """
        command = ["mount", "-o", f"remount,{'ro' if really else 'rw'}", str(self.path)]
        wait_until(lambda: subprocess.run(command, check=False).returncode == 0)

    def kill(self) -> None:
        """Make every later write fail with EIO, and on XFS every later call."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_JOURNAL))
        finally:
            os.close(descriptor)

    def fill(self, *, but: int = 0) -> Path:
        """Fill the remaining space, except ``but`` bytes. Return the file that takes it."""
        ballast = self.path / "ballast"
        with ballast.open("wb", buffering=0) as file:
            for size in (_MIB, 4096):
                while self.free() >= but + size and _writes(file.fileno(), bytes(size)):
                    pass
        return ballast

    def free(self) -> int:
        """Return the free bytes."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize


def _writes(descriptor: int, data: bytes) -> bool:
    try:
        return os.write(descriptor, data) == len(data)
    except OSError:
        return False


@contextmanager
def small_disk(folder: Path, megabytes: int = 64, kind: str = "ext4", *options: str) -> Iterator[SmallDisk]:
    """Make a small disk below ``folder`` and mount it until exit. ``kind`` is ext4 or xfs, which needs 320 MB.

    ``options``: for mkfs.
    """
    disk = SmallDisk(folder / "disk", folder / "disk.img")
    disk.path.mkdir()
    with disk.image.open("wb") as image:
        image.truncate(max(megabytes, _LEAST_MIB[kind]) * _MIB)
    subprocess.run([*_MAKE[kind], *options, str(disk.image)], check=True)
    disk.mount()
    try:
        yield disk
    finally:
        detach(str(disk.path))


@contextmanager
def memory_folder(folder: Path, megabytes: int = 64) -> Iterator[Path]:
    """Mount a tmpfs below ``folder`` until exit."""
    path = folder / "memory"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        detach(str(path))
