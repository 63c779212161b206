"""Mounts a version's overlay with a writable upper layer, on a disk that only this overlay shows.

One mount point holds everything: the disk at the bottom, the metadata image in a folder of the disk, and the overlay,
which covers both. So an unmount of its layers leaves nothing behind, also after a crash in between.
"""

import errno
import os
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from stoker_sidecar.errors import MountError
from stoker_sidecar.linux.mounts import mount_calls, mountinfo, overlay
from stoker_sidecar.linux.mounts.mount_calls import MS_NOATIME, MS_NODEV, MS_NOSUID, MS_RDONLY, MS_REMOUNT
from stoker_sidecar.linux.mounts.overlay import OverlayLayers

_DISK = "ext4"
_FLAGS = MS_NOSUID | MS_NODEV
_UPPER, _NAMES = "upper", "names"
_ALL_MAY_WRITE = 0o777  # of the root folder, as of all folders of the metadata layer


def has_disk(mountpoint: Path) -> bool:
    """Return True if the upper layer's disk is mounted there."""
    return any(row.fs_type == _DISK for row in _rows(mountpoint))


def mount_disk(device: str, mountpoint: Path) -> None:
    """Mount the new file system of ``device`` at the bottom of ``mountpoint``, which is created. Raises MountError."""
    try:
        mountpoint.mkdir(mode=0o700, parents=True, exist_ok=True)
        # noinit_itable: the kernel would write all tables of inodes in the background.
        mount_calls.mount(device, str(mountpoint), _DISK, _FLAGS | MS_NOATIME, "noinit_itable,errors=remount-ro")
        for name in (_UPPER, _NAMES):
            (mountpoint / name).mkdir()
        (mountpoint / _UPPER).chmod(_ALL_MAY_WRITE)
    except OSError as error:
        raise MountError(error.errno or errno.EIO, f"preparing the disk at {mountpoint}: {error.strerror}") from error


def mount(layers: OverlayLayers, mountpoint: Path) -> None:
    """Mount the overlay of ``layers`` with the disk of ``mountpoint``, unless it is there. Raises MountError.

    An overlay that has lost a layer is replaced. Writes are kept, and open files stay usable.
    """
    try:
        source = overlay.source_of(layers)
        top = _rows(mountpoint)[-1]
        if overlay.is_ours(top):
            if top.source == source:
                return
            mount_calls.detach(str(mountpoint))
        # A new one each time: the kernel clears it, and a replaced overlay may still use its own.
        work = Path(tempfile.mkdtemp(prefix="work-", dir=mountpoint))
    except OSError as error:
        raise MountError(error.errno or errno.EIO, f"preparing the overlay {mountpoint}: {error.strerror}") from error
    with (
        overlay.lower_layers(_with_names(mountpoint, layers)) as lowerdir,
        mount_calls.opened(mountpoint / _UPPER, mountpoint, "opening the upper layer") as upper,
        mount_calls.opened(work, mountpoint, "opening the work folder") as working,
    ):
        options = f"metacopy=on,redirect_dir=on,index=off,xino=on,lowerdir={lowerdir}"
        options += f",upperdir=/proc/self/fd/{upper},workdir=/proc/self/fd/{working}"
        mount_calls.mount(source, str(mountpoint), overlay.FS_TYPE, _FLAGS, options)


def forget_names(mountpoint: Path) -> None:
    """Drop all unused names, as ``overlay.forget_names`` does. Raises MountError."""
    mount_calls.mount("", str(mountpoint), "", MS_REMOUNT | _FLAGS)


def unmount(mountpoint: Path) -> None:
    """Unmount overlay, image and disk, and remove the mount point. A missing one is no error. Raises MountError."""
    for _ in _rows(mountpoint):
        mount_calls.detach(str(mountpoint))
    with suppress(OSError):  # missing
        mountpoint.rmdir()


def _with_names(mountpoint: Path, layers: OverlayLayers) -> OverlayLayers:
    if not layers.metadata.is_file():
        return layers
    names = mountpoint / _NAMES
    if not os.path.ismount(names):
        mount_calls.mount(str(layers.metadata), str(names), overlay.IMAGE_TYPE, _FLAGS | MS_RDONLY)
    return replace(layers, metadata=names)


def _rows(mountpoint: Path) -> tuple[mountinfo.Mount, ...]:
    return mountinfo.read_layers(str(mountpoint))
