"""Mounts as pods see them: read-only layers on a target path. Calls block; run them off the event loop.

A bind can pass through an overlay without an upper layer. The kernel never makes that file system writable.
"""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker_sidecar.errors import MountError
from stoker_sidecar.linux.mounts import fuse_device as device
from stoker_sidecar.linux.mounts import mount_calls, mountinfo, overlay, pod_mounts
from stoker_sidecar.linux.mounts.mount_calls import (
    MS_NODEV,
    MS_NOSUID,
    MS_RDONLY,
    bind_read_only,
    detach,
    mount,
    opened,
)
from stoker_sidecar.linux.mounts.mountinfo import Mount

# Swaps stack two or three, and each death of a whole sidecar during a pod's life one or two more. Beyond this limit,
# another program mounts as fast as the loop unmounts.
_MOST_LAYERS = 1024
_SOURCE = "stoker-read-only"
_OPTIONS = "redirect_dir=nofollow,metacopy=off,xino=on"


def bind(source: Path, target: Path, root: Path | None = None, scratch: Path | None = None) -> None:
    """Mount the folder ``source`` at the existing folder ``target``, read-only, over existing mounts.

    It has no effect if the top layer at ``target`` is that folder already. ``root`` is another user's folder that
    contains ``source``; no link below it is followed. With ``scratch``, ``source`` is shown through a file system that
    cannot be made writable: an overlay without an upper layer. Raises MountError.
    """
    if scratch is not None:  # always a new one: an older one may cache replaced files
        _bind_through_overlay(source, target, root or source, scratch)
    elif not _shows(source, target):
        bind_read_only(str(source), str(target), root)


def bind_writable(source: Path, target: Path) -> None:
    """Mount the folder ``source`` of root at ``target``, over existing mounts. No setuid, no devices.

    It has no effect if the top layer at ``target`` is that folder already. Raises MountError.
    """
    if not _shows(source, target):
        mount_calls.bind_writable(str(source), str(target))


def _bind_through_overlay(source: Path, target: Path, root: Path, scratch: Path) -> None:
    """Show ``source``, which lies beneath ``root``, at ``target``. Every write there fails with EROFS.

    A bind mount is read-only by a flag of the mount, which container runtimes clear. The kernel also checks a file's
    mode before that flag, so other users get EACCES. An overlay is read-only by its superblock, which the kernel checks
    first. ``scratch``: a folder for a mount that ends before this function returns. Raises MountError.
    """
    # The overlay shows all of root, for two reasons. The kernel copies and sorts the names of an overlay's own root
    # folder, but of no folder below it. And mountinfo has the same path as for a bind mount, which tells the version.
    with _overlay_of(root, scratch) as shown:
        bind_read_only(str(shown / source.relative_to(root)), str(target), shown)


def is_read_only_overlay(row: Mount) -> bool:
    """Return True if a row of mountinfo is an overlay without an upper layer, as ``bind`` mounts with ``scratch``."""
    return row.fs_type == overlay.FS_TYPE and row.source == _SOURCE


@contextmanager
def _overlay_of(root: Path, scratch: Path) -> Iterator[Path]:
    """Mount it below ``scratch``. After a crash, the agent's next start unmounts it, as it does other overlays."""
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        mountpoint = Path(tempfile.mkdtemp(dir=scratch)) / f"tree{overlay.SUFFIX}"
        mountpoint.mkdir()
    except OSError as error:
        raise MountError(error.errno or errno.EIO, f"preparing a mount below {scratch}: {error}") from error
    try:
        what = f"showing {root} read-only"
        # An overlay without an upper layer needs two lower ones: the second is the empty mount point.
        with opened(root, root, what) as lower, opened(mountpoint, mountpoint, what) as empty:
            folders = f"lowerdir=/proc/self/fd/{lower}:/proc/self/fd/{empty}"
            mount(_SOURCE, str(mountpoint), overlay.FS_TYPE, MS_RDONLY | MS_NOSUID | MS_NODEV, f"{_OPTIONS},{folders}")
        yield mountpoint
    finally:
        overlay.unmount(mountpoint)


def unmount_all(target: Path) -> int:
    """Unmount every layer of ``target``, including dead ones. Return their number. Raises MountError."""
    for count in range(_MOST_LAYERS):
        if not layers(target):
            return count
        try:
            detach(str(target))
        except MountError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT):  # gone between the check and the call
                raise
    raise MountError(
        errno.EBUSY, f"{target} still has mounts after {_MOST_LAYERS} were taken off: find out what mounts there"
    )


def layers(target: Path) -> tuple[Mount, ...]:
    """Return the mounts at exactly ``target``, bottom first, without accessing them, as one may be dead."""
    return mountinfo.read_layers(_without_links(target))


def show_in_pod(pod_uid: str, target: Path) -> None:
    """Show the top layer of ``target`` in the pod's containers that still see an older one. Raises MountError.

    Without the host's PID namespace no containers are visible, and this has no effect.
    """
    rows = layers(target)
    if len(rows) > 1:
        pod_mounts.show_in_pod(pod_uid, rows, target)


def old_modes_in_pod(pod_uid: str, target: Path) -> frozenset[str]:
    """Return the modes of older layers of ``target`` that the pod's containers still see. Raises OSError.

    A mode is fuse, overlay or native. Without the host's PID namespace only mounts with subPath are visible.
    """
    rows = layers(target)
    if len(rows) < 2:
        return frozenset()
    return frozenset(_mode(row) for row in pod_mounts.old_layers(pod_uid, rows, target))


def _mode(row: Mount) -> str:
    if overlay.is_ours(row):
        return "overlay"
    return "fuse" if row.fs_type == device.FS_TYPE else "native"


def is_dead(target: Path) -> bool:
    """Return True if the top layer at ``target`` has lost its FUSE server. Waits for a slow live server."""
    top = layers(target)[-1:]
    if top and overlay.is_ours(top[0]):
        return overlay.is_dead(top[0])
    return device.is_dead(str(target))


def _without_links(target: Path) -> str:
    """Return a path in the kernel's form, without accessing the mount point, which may be dead."""
    return str(target.parent.resolve() / target.name)


def _shows(source: Path, target: Path) -> bool:
    """Return True if the top of ``target`` is the same folder of the same file system."""
    if not layers(target) or is_dead(target):
        return False
    try:
        wanted, seen = source.stat(), target.stat()
    except OSError:
        return False  # bind reports the problem
    return (wanted.st_dev, wanted.st_ino) == (seen.st_dev, seen.st_ino)
