"""Makes a FUSE mount by hand and keeps its descriptor, so that the mount outlives any server."""

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.errors import MountError
from stoker_sidecar.linux import fuse_protocol as fuse_wire
from stoker_sidecar.linux import fusermount, mountinfo
from stoker_sidecar.linux.mount_calls import MS_NOATIME, MS_NODEV, MS_NOSUID, MS_RDONLY, detach, mount

# One large sequential read went from 0.5 to 1.08 GB/s with it (docs: data path).
_READ_AHEAD_KIB = 16 * 1024
FS_TYPE = "fuse.stoker"


@dataclass(frozen=True)
class InitializedMount:
    """A mounted, initialised FUSE connection. An open ``fd`` keeps it alive; a server may come and go."""

    fd: int
    mountpoint: Path
    can_resend: bool


def open_mount(mountpoint: Path, *, allow_other: bool = False) -> InitializedMount:
    """Open the FUSE device, mount it read-only at ``mountpoint`` (made when absent) and answer INIT. Raises MountError.

    ``allow_other``: a user's mount is for all users too; root's always is.
    """
    _make_folder(mountpoint)
    fd = _mount_as_root(mountpoint) if _is_root() else fusermount.mount(str(mountpoint), allow_other=allow_other)
    try:
        can_resend = _answer_init(fd)
    except (OSError, ValueError) as error:
        close_mount(InitializedMount(fd, mountpoint, can_resend=False))
        raise MountError(getattr(error, "errno", None) or 0, f"starting FUSE at {mountpoint}: {error}") from error
    _raise_read_ahead(mountpoint)
    return InitializedMount(fd, mountpoint, can_resend)


def close_mount(mounted: InitializedMount) -> None:
    """Unmount it and end the connection: what still reads through it gets ENOTCONN. Raises MountError."""
    try:
        _unmount(mounted.mountpoint)
    finally:
        os.close(mounted.fd)


def clear_dead_mounts(root: Path) -> list[str]:
    """Detach our FUSE mounts below ``root`` whose server is dead, as a killed keeper leaves them; returns targets."""
    ours = [mount.target for mount in mountinfo.below(mountinfo.read(), str(root)) if mount.fs_type == FS_TYPE]
    dead = [target for target in reversed(ours) if is_dead(target)]
    for target in dead:
        _unmount(Path(target))
    return dead


def is_dead(target: str) -> bool:
    """Tell whether ``target`` is a mount whose FUSE connection has ended. Waits while a live server is slow.

    Never call it from a process that holds the mount's descriptor: killed in that wait, it could not end.
    """
    try:
        os.statvfs(target)  # not stat: the kernel has the attributes for a year, and answers for the dead
    except OSError as error:
        return error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    return False


def _is_root() -> bool:
    return os.geteuid() == 0


def _mount_as_root(mountpoint: Path) -> int:
    fd = _open_device()
    # default_permissions: the kernel checks modes itself; allow_other: pods run as any user.
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
    try:
        mount("stoker", str(mountpoint), FS_TYPE, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME, options)
    except MountError:
        os.close(fd)
        raise
    return fd


def _unmount(mountpoint: Path) -> None:
    if _is_root():
        detach(str(mountpoint))
        _remove_folder(mountpoint)
    else:  # a folder of that user's own, who cannot bind a mount from elsewhere to it
        fusermount.unmount(str(mountpoint))


def _make_folder(mountpoint: Path) -> None:
    try:
        mountpoint.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MountError(error.errno or 0, f"making the mount point {mountpoint}: {error.strerror}") from error


def _remove_folder(mountpoint: Path) -> None:
    """Remove the mount point, and the dataset's folder above it when that was its last version."""
    with suppress(OSError):  # a layer below, another version, or something of a person: not ours to remove
        mountpoint.rmdir()
        mountpoint.parent.rmdir()


def _open_device() -> int:
    try:
        return os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        advice = "the sidecar's container needs privileged: true and the fuse module on the node (modprobe fuse)"
        raise MountError(error.errno or 0, f"opening /dev/fuse: {error.strerror} ({advice})") from error


def _answer_init(fd: int) -> bool:
    init = fuse_wire.parse_init(os.read(fd, fuse_wire.LARGEST_INIT))
    os.write(fd, fuse_wire.init_reply(init))
    if init.can_resend:
        # A server must see "nothing there" instead of blocking when a request is withdrawn between poll and read.
        os.set_blocking(fd, False)
    return init.can_resend


def _raise_read_ahead(mountpoint: Path) -> None:
    """Larger kernel readahead where /sys is writable; without it reads are right, only slower."""
    rows = mountinfo.layers(mountinfo.read(), str(mountpoint))
    with suppress(OSError):
        for row in rows[-1:]:
            Path(f"/sys/class/bdi/{row.device}/read_ahead_kb").write_text(str(_READ_AHEAD_KIB))
