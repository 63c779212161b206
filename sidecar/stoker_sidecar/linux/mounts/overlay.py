"""Mounts a version's overlay: names from its metadata layer, bytes from the cache folder, missing bytes from FUSE."""

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from stoker_sidecar.errors import MountError
from stoker_sidecar.linux.beneath import open_beneath
from stoker_sidecar.linux.mounts import fuse_device as device
from stoker_sidecar.linux.mounts import mount_calls, mountinfo
from stoker_sidecar.linux.mounts.mount_calls import MS_NODEV, MS_NOSUID, MS_RDONLY, MS_REMOUNT
from stoker_sidecar.linux.mounts.mountinfo import Mount

FS_TYPE = "overlay"
SUFFIX = ".overlay"  # of mount points, next to the FUSE mount of the same version
IMAGE_TYPE = "erofs"
_FLAGS = MS_RDONLY | MS_NOSUID | MS_NODEV
_NAME = "stoker"
_SEPARATOR = ";"


@dataclass(frozen=True)
class OverlayLayers:
    """The folders of one version's overlay: metadata layer, complete files, and the FUSE mount with all files.

    The metadata layer may be an EROFS image, which is mounted from its file (Linux 6.12). ``root`` is another user's
    folder that contains ``tree``; no link below it is followed.
    """

    metadata: Path
    tree: Path
    fuse: Path
    root: Path | None = None


def mount(layers: OverlayLayers, mountpoint: Path) -> None:
    """Mount at ``mountpoint``, which is created, unless these layers are mounted there. Raises MountError.

    Another mount there is unmounted first, because it has lost a layer. Pods keep their open files.
    """
    try:
        source = source_of(layers)
        if any(is_ours(row) and row.source == source for row in _rows(mountpoint)[-1:]):
            return
        unmount(mountpoint)
        mountpoint.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MountError(error.errno or 0, f"preparing the overlay {mountpoint}: {error}") from error
    try:
        _mount(_with_names_at(mountpoint, layers), source, mountpoint)
    except MountError:
        with suppress(MountError):
            unmount(mountpoint)
        raise


def unmount(mountpoint: Path) -> None:
    """Unmount the overlay and its image, and remove its folders. A missing one is no error. Raises MountError."""
    for _ in _rows(mountpoint):
        mount_calls.detach(str(mountpoint))
    with suppress(OSError):  # another version's, or missing
        mountpoint.rmdir()
        mountpoint.parent.rmdir()


def forget_names(mountpoint: Path) -> None:
    """Drop all names of the overlay that nothing holds open. Raises MountError.

    The first open of an inode determines the layer of a file's bytes, and an inode lives as long as its name is cached.
    Changing a mount's super block drops unused names (reconfigure_super() in fs/super.c), and an overlay's inodes go
    with their last name. Nothing else changes, and open files stay as they are.
    """
    mount_calls.mount("", str(mountpoint), "", MS_REMOUNT | _FLAGS)


def is_dead(row: Mount) -> bool:
    """Return True if a Stoker overlay has lost its FUSE server, so that uncached files cannot be read.

    It checks the FUSE mount, because the overlay itself answers everything but reads. Waits for a slow live server.
    """
    below = row.source.split(_SEPARATOR)[1]
    # The last row of a target is the visible one: a FUSE layer that the overlay covers cannot be checked.
    seen = {one.target: one for one in mountinfo.read()}
    served = [one.target for one in seen.values() if one.device == below and one.fs_type == device.FS_TYPE]
    return not served or device.is_dead(served[0])


def is_ours(row: Mount) -> bool:
    """Return True if a row of mountinfo is a Stoker overlay."""
    return row.fs_type == FS_TYPE and row.source.startswith(_NAME + _SEPARATOR)


def _with_names_at(mountpoint: Path, layers: OverlayLayers) -> OverlayLayers:
    """Mount a metadata image where the overlay will cover it.

    Then an unmount finds both at one place, also after a crash in between.
    """
    if not layers.metadata.is_file():
        return layers
    mount_calls.mount(str(layers.metadata), str(mountpoint), IMAGE_TYPE, _FLAGS)
    return replace(layers, metadata=mountpoint)


def _mount(layers: OverlayLayers, source: str, mountpoint: Path) -> None:
    with lower_layers(layers) as lowerdir:
        # xino: one device number for the whole tree; otherwise tools that stay on one file system would skip every
        # file.
        options = f"metacopy=on,redirect_dir=follow,xino=on,lowerdir={lowerdir}"
        mount_calls.mount(source, str(mountpoint), FS_TYPE, _FLAGS, options)


def source_of(layers: OverlayLayers) -> str:
    """Return the mount's source, which identifies an overlay: the FUSE device, and both folders. Raises OSError."""
    fuse = layers.fuse.stat().st_dev
    words = [_NAME, f"{os.major(fuse)}:{os.minor(fuse)}"]
    for folder in (layers.tree, layers.metadata):
        found = folder.stat()
        words.append(f"{found.st_dev}.{found.st_ino}")
    return _SEPARATOR.join(words)


@contextmanager
def lower_layers(layers: OverlayLayers) -> Iterator[str]:
    """Return the option lowerdir with descriptors: paths may contain option separators, or be too long.

    Raises MountError.
    """
    with ExitStack() as stack:
        names = []
        for folder, root in ((layers.metadata, None), (layers.tree, layers.root), (layers.fuse, None)):
            try:
                fd = open_beneath(root or folder, folder, os.O_PATH | os.O_DIRECTORY)
            except OSError as error:
                raise MountError(error.errno or errno.EIO, f"the overlay's layer {folder}: {error.strerror}") from error
            stack.callback(os.close, fd)
            names.append(f"/proc/self/fd/{fd}")
        # Data-only layers (Linux 6.5) follow "::", and are searched in this order.
        yield "::".join(names)


def _rows(mountpoint: Path) -> tuple[Mount, ...]:
    return mountinfo.read_layers(str(mountpoint))
