"""Builds the metadata layer of a version: empty placeholders from which the overlay answers everything but reads.

It is a program of its own (``python -m stoker_sidecar.volumes.metadata_layer``), since a million entries must neither
block the agent nor stay in its memory. Root alone can build it: the overlay's attributes are of the trusted namespace.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from stoker_sidecar.errors import CacheError, ManifestInvalid, MountError
from stoker_sidecar.linux.confinement import Confinement
from stoker_sidecar.linux.landlock import TcpAccess
from stoker_sidecar.linux.libc import end_with_parent
from stoker_sidecar.version.manifest import ROOT_INO, Entry, Manifest
from stoker_sidecar.version.objects import skip_reason
from stoker_sidecar.wire.disk_floor import FLOOR_BYTES, FLOOR_INODES, NO_FLOOR, DiskFloor, DiskSpace, Floor

_BUILDING = ".building"
_NO_TCP = TcpAccess.BIND | TcpAccess.CONNECT
_DIR_MODE = 0o555
_FILE_MODE = 0o444
# An ext4 inode of 256 bytes holds attributes of a path up to 28 bytes; longer ones take a block of their own.
_BYTES_AN_ENTRY = 4096 + 256
# Others live on that disk too: the layer may take half of what is free.
_SHARE = 2
# A tenth of the CPU that another process gets on a busy node: the layer must not slow down training, but training waits
# for it too.
_NICE = 10


def build(manifest: Path, folder: Path, floor: DiskFloor = NO_FLOOR) -> int:
    """Make the layer at ``folder``, which appears by rename when it is whole; number of entries.

    ``floor``: what is to be left free of the disk. Raises ManifestInvalid, and MountError when the disk has no room or
    refuses.
    """
    draft = folder.with_name(folder.name + _BUILDING)
    source = Manifest.open(manifest)
    try:
        _clear(draft)
        draft.parent.mkdir(parents=True, exist_ok=True)
        check_room(source.last_ino, os.statvfs(draft.parent), floor)
        _fill(source, draft)
        draft.rename(folder)
    except OSError as error:
        _clear(draft)
        raise MountError(error.errno or 0, f"building the metadata layer {folder}: {error.strerror}") from error
    except CacheError:
        _clear(draft)
        raise
    finally:
        source.close()
    return source.last_ino


def remove(folder: Path) -> None:
    """Delete a layer or what is left of one; nothing to do is no error. Raises OSError."""
    draft = folder.with_name(folder.name + _BUILDING)
    with suppress(FileNotFoundError):
        folder.rename(draft)  # at once not ready any more
    _clear(draft)


def is_draft(folder: Path) -> bool:
    """Whether a folder beside the layers is an unfinished one."""
    return folder.name.endswith(_BUILDING)


def check_room(entries: int, disk: os.statvfs_result, floor: DiskFloor) -> None:
    """Raise MountError when a layer of so many entries would take more than half of what is free above the floor."""
    block = disk.f_frsize
    space = DiskSpace(disk.f_bavail * block, disk.f_blocks * block, disk.f_favail, disk.f_files)
    inodes, free = floor.inodes_left(space), floor.bytes_left(space)
    if entries * _SHARE > inodes or entries * _BYTES_AN_ENTRY * _SHARE > free:
        raise MountError(
            0,
            f"a metadata layer of {entries} entries takes as many inodes and up to "
            f"{entries * _BYTES_AN_ENTRY >> 20} MiB, which is more than half of the {inodes} inodes and "
            f"{free >> 20} MiB that are free above the floor: make room, lower sidecar.floor, or set "
            "sidecar.overlay to Off",
        )


def _fill(manifest: Manifest, draft: Path) -> None:
    """One pass in canonical order.

    Each open folder has a descriptor, so that names stay short and no path is too long.
    """
    root = manifest.entry(ROOT_INO)
    draft.mkdir(mode=0o700)
    stack = [(os.open(draft, os.O_RDONLY | os.O_DIRECTORY), root)]
    for path, entry in manifest.walk():
        _check_name(path, entry)
        while stack[-1][1] is not None and stack[-1][1].ino != entry.parent:
            _leave(*stack.pop())
        folder = stack[-1][0]
        if entry.is_dir:
            os.mkdir(entry.name, 0o700, dir_fd=folder)
            stack.append((os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder), entry))
        else:
            _place(folder, path, entry)
    while stack:
        _leave(*stack.pop())


def _check_name(path: bytes, entry: Entry) -> None:
    """Raise ManifestInvalid for a name that leads elsewhere: the manifest lies in a folder of the fetcher's."""
    if b"/" in entry.name or skip_reason(path, 0) is not None:
        raise ManifestInvalid(f"the manifest's path {path[:200]!r} cannot be a file: fetch the version again")


def _leave(folder: int, entry: Entry | None) -> None:
    """Mode and times last, since every child that is made changes them."""
    os.fchmod(folder, _DIR_MODE)
    if entry is not None:
        os.utime(folder, ns=(entry.mtime_ns, entry.mtime_ns))
    os.close(folder)


def _place(folder: int, path: bytes, entry: Entry) -> None:
    fd = os.open(entry.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE, dir_fd=folder)
    try:
        os.ftruncate(fd, entry.size)
        os.setxattr(fd, "trusted.overlay.metacopy", b"")
        # Absolute: only so are the data layers searched.
        os.setxattr(fd, "trusted.overlay.redirect", b"/" + path)
        for name, value in source_attributes(path, entry):
            os.setxattr(fd, name, value)
        os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))
    except OSError as error:  # a path of thousands of bytes does not fit into an attribute
        raise OSError(error.errno, f"{error.strerror} at the file {path[:200]!r}") from error
    finally:
        os.close(fd)


def source_attributes(path: bytes, entry: Entry) -> list[tuple[bytes, bytes]]:
    """Where a file comes from, as the FUSE server tells it too. Pure."""
    rows = [(b"user.stoker.key", path), (b"user.stoker.etag", entry.etag.encode())]
    if entry.version_id:
        rows.append((b"user.stoker.version", entry.version_id.encode()))
    return rows


def _clear(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def main(argv: Sequence[str] | None = None) -> int:
    """Build or remove a layer; return the exit code. What went wrong is on standard error, one sentence."""
    parser = argparse.ArgumentParser(prog="stoker_sidecar.volumes.metadata_layer", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the layer is or will be")
    for name, text in (("--floor-bytes", FLOOR_BYTES), ("--floor-inodes", FLOOR_INODES)):
        parser.add_argument(name, type=Floor.parse, default=Floor(), help=text.replace("%", "%%"))
    parser.add_argument("--manifest", type=Path, help="build it of this version; without it the layer is removed")
    options = parser.parse_args(argv)
    end_with_parent()
    os.nice(_NICE)
    os.umask(0)
    try:
        if options.manifest is None:
            remove(options.folder)
        else:
            # The manifest is the fetcher's, and this process is root: it reads beside it and writes layers, no more.
            options.folder.parent.mkdir(parents=True, exist_ok=True)
            Confinement([str(options.manifest.parent)], [str(options.folder.parent)]).begin(no_tcp=_NO_TCP)
            build(options.manifest, options.folder, DiskFloor(options.floor_bytes, options.floor_inodes))
    except (CacheError, MountError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
