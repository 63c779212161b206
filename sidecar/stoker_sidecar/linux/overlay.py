"""Mounts a version's overlay: names from its metadata layer, bytes from the cache folder, or FUSE where they miss."""

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from stoker_sidecar.errors import MountError
from stoker_sidecar.linux import fuse_device as device
from stoker_sidecar.linux import mount_calls, mountinfo
from stoker_sidecar.linux.beneath import open_beneath
from stoker_sidecar.linux.mount_calls import MS_NODEV, MS_NOSUID, MS_RDONLY, MS_REMOUNT
from stoker_sidecar.linux.mountinfo import Mount

FS_TYPE = "overlay"
SUFFIX = ".overlay"  # of mount points, beside the FUSE mount of the same version
_IMAGE_TYPE = "erofs"
_FLAGS = MS_RDONLY | MS_NOSUID | MS_NODEV
_NAME = "stoker"
_SEPARATOR = ";"


@dataclass(frozen=True)
class OverlayLayers:
    """The folders of one version's overlay: metadata layer, finished files, and the FUSE mount that has all.

    The metadata layer may be an EROFS image as well, which is mounted from its file (Linux 6.12). ``root``: a folder of
    another user's, beneath which ``tree`` lies and no link is followed.
    """

    metadata: Path
    tree: Path
    fuse: Path
    root: Path | None = None


def mount(layers: OverlayLayers, mountpoint: Path) -> None:
    """Mount at ``mountpoint``, which is made; not when these very layers are mounted there. Raises MountError.

    Otherwise what is mounted there is unmounted first: it has lost a layer, and pods keep what they have open.
    """
    try:
        source = _source(layers)
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
    """Unmount the overlay, its image below it, and remove its folders; nothing to do is no error. Raises MountError."""
    for _ in _rows(mountpoint):
        mount_calls.detach(str(mountpoint))
    with suppress(OSError):  # another version's, or not there
        mountpoint.rmdir()
        mountpoint.parent.rmdir()


def forget_names(mountpoint: Path) -> None:
    """Have the kernel forget every name of the overlay that nothing holds open. Raises MountError.

    Which layer has a file's bytes is found out at the first open of its inode, which lives as long as its name is
    known. Changing a mount's super block drops the names that are not in use (reconfigure_super() in fs/super.c), and
    an overlay's inodes go with their last name; nothing else is changed, and open files stay as they are.
    """
    mount_calls.mount("", str(mountpoint), "", MS_REMOUNT | _FLAGS)


def is_dead(row: Mount) -> bool:
    """Tell whether an overlay of ours has lost the FUSE server below it: what is not cached yet cannot be read.

    Asked of the FUSE mount, since the overlay itself answers everything but reads. Waits while a live server is slow.
    """
    below = row.source.split(_SEPARATOR)[1]
    # The last row of a target is what is seen there: a FUSE layer that the overlay itself covers cannot be asked.
    seen = {one.target: one for one in mountinfo.read()}
    served = [one.target for one in seen.values() if one.device == below and one.fs_type == device.FS_TYPE]
    return not served or device.is_dead(served[0])


def is_ours(row: Mount) -> bool:
    """Tell whether a row of mountinfo is an overlay of ours."""
    return row.fs_type == FS_TYPE and row.source.startswith(_NAME + _SEPARATOR)


def _with_names_at(mountpoint: Path, layers: OverlayLayers) -> OverlayLayers:
    """Mount a metadata layer that is an image where the overlay will cover it.

    So whoever unmounts the overlay finds both at one place, also after a crash in between.
    """
    if not layers.metadata.is_file():
        return layers
    mount_calls.mount(str(layers.metadata), str(mountpoint), _IMAGE_TYPE, _FLAGS)
    return replace(layers, metadata=mountpoint)


def _mount(layers: OverlayLayers, source: str, mountpoint: Path) -> None:
    with _as_options(layers) as lowerdir:
        # xino: one device number for the whole tree, or tools that stay on one file system would skip every file.
        options = f"metacopy=on,redirect_dir=follow,xino=on,lowerdir={lowerdir}"
        mount_calls.mount(source, str(mountpoint), FS_TYPE, _FLAGS, options)


def _source(layers: OverlayLayers) -> str:
    """Name the mount's source, which tells two overlays apart: device of FUSE, identity of both folders."""
    fuse = layers.fuse.stat().st_dev
    words = [_NAME, f"{os.major(fuse)}:{os.minor(fuse)}"]
    for folder in (layers.tree, layers.metadata):
        found = folder.stat()
        words.append(f"{found.st_dev}.{found.st_ino}")
    return _SEPARATOR.join(words)


@contextmanager
def _as_options(layers: OverlayLayers) -> Iterator[str]:
    """Name the layers by descriptor: their paths may hold what separates options, or be too long."""
    with ExitStack() as stack:
        names = []
        for folder, root in ((layers.metadata, None), (layers.tree, layers.root), (layers.fuse, None)):
            try:
                fd = open_beneath(root or folder, folder, os.O_PATH | os.O_DIRECTORY)
            except OSError as error:
                raise MountError(error.errno or errno.EIO, f"the overlay's layer {folder}: {error.strerror}") from error
            stack.callback(os.close, fd)
            names.append(f"/proc/self/fd/{fd}")
        # Behind "::" come data-only layers (Linux 6.5), searched in this order.
        yield "::".join(names)


def _rows(mountpoint: Path) -> tuple[Mount, ...]:
    return mountinfo.layers(mountinfo.read(), str(mountpoint))
