"""Mounts as pods see them: read-only layers on a target path. Blocking calls; run them off the event loop."""

import errno
from pathlib import Path

from stoker_sidecar.errors import MountError
from stoker_sidecar.linux import fuse_device as device
from stoker_sidecar.linux import mountinfo, overlay, pod_mounts
from stoker_sidecar.linux.mount_calls import bind_read_only, detach
from stoker_sidecar.linux.mountinfo import Mount

# Swaps stack two or three, and each death of a whole sidecar in a pod's life one or two more. Beyond this, someone
# mounts as fast as we unmount.
_MOST_LAYERS = 1024


def bind(source: Path, target: Path, root: Path | None = None) -> None:
    """Show the folder ``source`` at the existing folder ``target``, read-only, over whatever is mounted there.

    Nothing is done when the top layer at ``target`` is that very folder already. ``root``: a folder of another user's,
    beneath which ``source`` lies and no link is followed. Raises MountError.
    """
    if not _shows(source, target):
        bind_read_only(str(source), str(target), root)


def unmount_all(target: Path) -> int:
    """Unmount every layer of ``target``, dead ones too; returns how many there were. Raises MountError."""
    for count in range(_MOST_LAYERS):
        if not layers(target):
            return count
        try:
            detach(str(target))
        except MountError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT):  # gone between the look and the call
                raise
    raise MountError(
        errno.EBUSY, f"{target} still has mounts after {_MOST_LAYERS} were taken off: find out who mounts there"
    )


def layers(target: Path) -> tuple[Mount, ...]:
    """Find what is mounted at exactly ``target``, bottom first; without touching the mounts, as one may be dead."""
    return mountinfo.layers(mountinfo.read(), _without_links(target))


def show_in_pod(pod_uid: str, target: Path) -> None:
    """Show the top layer of ``target`` in the pod's containers that still see an older one. Raises MountError.

    Without the host's PID namespace there are no containers to be seen, and nothing is done.
    """
    rows = layers(target)
    if len(rows) > 1:
        pod_mounts.show_in_pod(pod_uid, rows, target)


def is_dead(target: Path) -> bool:
    """Tell whether the top layer at ``target`` has lost its FUSE server. Waits while a live server is slow."""
    top = layers(target)[-1:]
    if top and overlay.is_ours(top[0]):
        return overlay.is_dead(top[0])
    return device.is_dead(str(target))


def _without_links(target: Path) -> str:
    """Write a path as the kernel does, without a look at the mount point itself, which may be dead."""
    return str(target.parent.resolve() / target.name)


def _shows(source: Path, target: Path) -> bool:
    """Tell whether the top of ``target`` is the same folder of the same file system."""
    if not layers(target) or is_dead(target):
        return False
    try:
        wanted, seen = source.stat(), target.stat()
    except OSError:
        return False  # bind says what is wrong with them
    return (wanted.st_dev, wanted.st_ino) == (seen.st_dev, seen.st_ino)
