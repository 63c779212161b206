"""A disk that loses power: a loop device whose unflushed writes are dropped, or partly kept, at a cut.

The loop device's backing file lies on a small FUSE file system, this program. It applies each write to an image, and
keeps the bytes from before until the next FLUSH, which the loop device passes on as fsync(2). A cut answers all later
requests with EIO, and takes back the unflushed writes in blocks of 4 KiB, of which a random part stays: a disk may
write its cache in any order. The kernel of this machine needs no device-mapper for that.
"""

import argparse
import errno
import os
import random
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyfuse3
import trio

from stoker_sidecar.linux.mounts.target_mounts import unmount_all
from tests.support.small_disk import least_mebibytes, mkfs

_MIB = 1024**2
_BLOCK = 4096
_FILE = "disk"
_INO = pyfuse3.InodeT(2)


class UnflushedWrite(NamedTuple):
    """A write since the last FLUSH. Bytes of the image before and after it."""

    offset: int
    before: bytes
    after: bytes


@dataclass
class WriteCache:
    """An image with all writes applied, and the undo data of writes since the last FLUSH."""

    image: int
    unflushed: list[UnflushedWrite] = field(default_factory=list)
    dead: bool = False

    def write(self, offset: int, data: bytes) -> None:
        """Write as a disk with a volatile cache does."""
        before = os.pread(self.image, len(data), offset)
        self.unflushed.append(UnflushedWrite(offset, before, data))
        os.pwrite(self.image, data, offset)

    def flush(self) -> None:
        """Make all earlier writes durable."""
        self.unflushed.clear()

    def cut(self, seed: int, kept: float) -> int:
        """Stop in the state after a power cut. Each unflushed block stays with probability ``kept``.

        Return the number of lost blocks.
        """
        self.dead = True
        chance, lost = random.Random(seed), 0
        for write in reversed(self.unflushed):
            os.pwrite(self.image, write.before, write.offset)
        for write in self.unflushed:
            for at in range(0, len(write.after), _BLOCK):
                if chance.random() < kept:
                    os.pwrite(self.image, write.after[at : at + _BLOCK], write.offset + at)
                else:
                    lost += 1
        return lost


class DiskOperations(pyfuse3.Operations):
    """A file system with one file of fixed size."""

    def __init__(self, cache: WriteCache, size: int) -> None:
        super().__init__()
        self._cache = cache
        self._size = size

    async def getattr(self, inode: pyfuse3.InodeT, ctx: object = None) -> pyfuse3.EntryAttributes:
        out = pyfuse3.EntryAttributes()
        out.st_ino, out.st_size = inode, self._size if inode == _INO else 0
        out.st_mode = pyfuse3.ModeT(stat.S_IFREG | 0o600 if inode == _INO else stat.S_IFDIR | 0o700)
        out.entry_timeout = out.attr_timeout = 3600.0
        return out

    async def lookup(self, parent: pyfuse3.InodeT, name: bytes, ctx: object = None) -> pyfuse3.EntryAttributes:
        if os.fsdecode(name) != _FILE:
            raise pyfuse3.FUSEError(errno.ENOENT)
        return await self.getattr(_INO)

    async def setattr(self, inode: pyfuse3.InodeT, *_: object) -> pyfuse3.EntryAttributes:
        return await self.getattr(inode)

    async def open(self, inode: pyfuse3.InodeT, flags: int, ctx: object = None) -> pyfuse3.FileInfo:
        return pyfuse3.FileInfo(fh=pyfuse3.FileHandleT(inode))

    async def read(self, fh: pyfuse3.FileHandleT, off: int, size: int) -> bytes:
        self._check()
        return os.pread(self._cache.image, size, off)

    async def write(self, fh: pyfuse3.FileHandleT, off: int, buf: bytes) -> int:
        self._check()
        self._cache.write(off, bytes(buf))
        return len(buf)

    async def fsync(self, fh: pyfuse3.FileHandleT, datasync: bool) -> None:
        self._check()
        self._cache.flush()

    def _check(self) -> None:
        if self._cache.dead:
            raise pyfuse3.FUSEError(errno.EIO)


async def _serve(cache: WriteCache) -> None:
    """Answer the kernel, and commands on standard input: ``cut SEED KEPT``. Stop when that input ends."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pyfuse3.main)
        print("ready", flush=True)
        while words := (await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)).split():
            print(cache.cut(int(words[1]), float(words[2])), flush=True)
        nursery.cancel_scope.cancel()


def main() -> None:
    """Serve an image as a disk with a volatile cache."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", type=Path)
    parser.add_argument("mountpoint", type=Path)
    options = parser.parse_args()
    descriptor = os.open(options.image, os.O_RDWR)
    cache = WriteCache(descriptor)
    options_of_mount = {"fsname=volatile", *pyfuse3.default_options}
    pyfuse3.init(DiskOperations(cache, os.fstat(descriptor).st_size), str(options.mountpoint), options_of_mount)
    try:
        trio.run(_serve, cache)
    finally:
        pyfuse3.close(unmount=True)


@dataclass
class VolatileDisk:
    """A file system on a disk with a volatile cache. ``path`` is its mount point, ``options`` are its mount options."""

    folder: Path
    path: Path
    options: str = ""
    _process: "subprocess.Popen[str] | None" = None
    _loop: str = ""
    _number: int = 0

    @property
    def image(self) -> Path:
        """The data that survives a cut."""
        return self.folder / "disk.img"

    @property
    def is_on(self) -> bool:
        """Return True if it is attached, with power or without."""
        return self._process is not None

    def switch_on(self) -> None:
        """Attach the disk unchanged, and mount it."""
        self._number += 1
        backing = self.folder / f"fuse-{self._number}"
        backing.mkdir()
        command = [sys.executable, "-m", __name__, str(self.image), str(backing)]
        root = Path(__file__).resolve().parents[2]
        self._process = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError("the volatile disk did not start")
        attach = ["losetup", "--find", "--show", "--direct-io=off", str(backing / _FILE)]
        self._loop = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
        options = ["-o", self.options] if self.options else []
        subprocess.run(["mount", *options, self._loop, str(self.path)], check=True)

    def cut(self, seed: int, kept: float) -> int:
        """Cut the power: all I/O fails from here on. Return the number of lost unflushed blocks of 4 KiB."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"cut {seed} {kept}\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    def switch_off(self) -> None:
        """Detach the dead disk."""
        process, self._process = self._process, None
        if process is None:
            return
        unmount_all(self.path)
        backing = self.folder / f"fuse-{self._number}"
        # It disappears when no mount namespace has the file system any more. Until then, it answers EIO.
        subprocess.run(["losetup", "--detach", self._loop], check=False)
        process.communicate()  # ends its input, and so the process
        unmount_all(backing)


@contextmanager
def volatile_disk(folder: Path, kind: str = "ext4", options: str = "", megabytes: int = 320) -> Iterator[VolatileDisk]:
    """Make a disk below ``folder`` and switch it on, until exit. ``kind`` is ext4 or xfs."""
    disk = VolatileDisk(folder, folder / "disk", options)
    disk.path.mkdir()
    with disk.image.open("wb") as image:
        image.truncate(max(megabytes, least_mebibytes(kind)) * _MIB)
    subprocess.run([*mkfs(kind), str(disk.image)], check=True)
    disk.switch_on()
    try:
        yield disk
    finally:
        if disk.is_on:
            disk.cut(0, 1.0)
            disk.switch_off()


if __name__ == "__main__":
    main()
