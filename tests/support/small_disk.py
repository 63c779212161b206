"""Real file systems of a few megabytes, that a test may fill, make read-only, kill and mount again."""

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.linux.mount_calls import detach
from tests.support.waiting import wait_until

_MIB = 1024**2
# EXT4_IOC_SHUTDOWN: from here on every call on the file system fails with EIO, as if its disk had died.
_SHUTDOWN = 0x8004587D
_WITHOUT_JOURNAL = 2


@dataclass(frozen=True)
class SmallDisk:
    """ext4 on a file. ``path``: where it is mounted."""

    path: Path
    image: Path

    def mount(self) -> None:
        """Mount the disk as it was; after ``kill`` with what had been synced."""
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.path)], check=True)

    def make_read_only(self, *, really: bool = True) -> None:
        """Make it read-only, as the kernel does after an error. ``really`` False: and back.

        The kernel would not wait; mount(2) does not do it as long as a file is open for writing. Raises TimeoutError.
        """
        command = ["mount", "-o", f"remount,{'ro' if really else 'rw'}", str(self.path)]
        wait_until(lambda: subprocess.run(command, check=False).returncode == 0)

    def kill(self) -> None:
        """Have every later call on it fail with EIO."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_JOURNAL))
        finally:
            os.close(descriptor)

    def fill(self) -> Path:
        """Take all the room that is left; the file that does."""
        ballast = self.path / "ballast"
        with ballast.open("wb", buffering=0) as file:
            for size in (_MIB, 4096):
                while _writes(file.fileno(), bytes(size)):
                    pass
        return ballast


def _writes(descriptor: int, data: bytes) -> bool:
    try:
        return os.write(descriptor, data) == len(data)
    except OSError:
        return False


@contextmanager
def small_disk(folder: Path, megabytes: int = 64) -> Iterator[SmallDisk]:
    """Make a small disk below ``folder`` and mount it; gone at exit."""
    disk = SmallDisk(folder / "disk", folder / "disk.img")
    disk.path.mkdir()
    with disk.image.open("wb") as image:
        image.truncate(megabytes * _MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", str(disk.image)], check=True)
    disk.mount()
    try:
        yield disk
    finally:
        detach(str(disk.path))


@contextmanager
def memory_folder(folder: Path, megabytes: int = 64) -> Iterator[Path]:
    """Mount a tmpfs below ``folder``; gone at exit."""
    path = folder / "memory"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        detach(str(path))
