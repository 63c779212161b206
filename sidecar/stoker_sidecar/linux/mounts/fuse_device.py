"""Makes a FUSE mount, directly or through fusermount3, and keeps its descriptor: the mount outlives any server."""

import errno
import os
import shutil
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.errors import MountError
from stoker_sidecar.linux.mounts import fuse_protocol as fuse_wire
from stoker_sidecar.linux.mounts import mountinfo
from stoker_sidecar.linux.mounts.mount_calls import MS_NOATIME, MS_NODEV, MS_NOSUID, MS_RDONLY, detach, mount

# Bytes of kernel read-ahead: it raised one large sequential read from 0.5 to 1.08 GB/s (docs: data path).
READ_AHEAD = 16 * 2**20
_BDI = Path("/sys/class/bdi")
FS_TYPE = "fuse.stoker"
# libfuse's setuid helper, which mounts and unmounts for users without privileges.
FUSERMOUNT = "fusermount3"
# The helper makes two system calls, which can be slow on a machine without free memory.
_HELPER_SECONDS = 10.0
_USER_OPTIONS = "ro,nosuid,nodev,noatime,default_permissions,fsname=stoker,subtype=stoker"


@dataclass(frozen=True)
class InitializedMount:
    """A mounted, initialized FUSE connection. An open ``fd`` keeps it alive while servers come and go."""

    fd: int
    mountpoint: Path
    can_resend: bool


def open_mount(mountpoint: Path, *, allow_other: bool = False) -> InitializedMount:
    """Open the FUSE device, mount it read-only at ``mountpoint`` (created if missing) and answer INIT.

    Raises MountError. ``allow_other`` makes a user's mount accessible to all users; root's always is.
    """
    _make_folder(mountpoint)
    fd = _mount_as_root(mountpoint) if _is_root() else _mount_as_user(str(mountpoint), allow_other=allow_other)
    try:
        can_resend = _answer_init(fd)
    except (OSError, ValueError) as error:
        close_mount(InitializedMount(fd, mountpoint, can_resend=False))
        raise MountError(getattr(error, "errno", None) or 0, f"starting FUSE at {mountpoint}: {error}") from error
    with suppress(OSError):  # /sys may be read-only: reads then work, but slower
        set_read_ahead(mountpoint)
    return InitializedMount(fd, mountpoint, can_resend)


def mount_again(mounted: InitializedMount) -> None:
    """Mount a living connection at its mount point again if another program unmounted it there (umount -l).

    Pods that show the mount keep its connection alive. Raises MountError, also before Linux 5.14, which cannot do this.
    A user's mount is left alone.
    """
    at = mounted.mountpoint
    layers = mountinfo.read_layers(str(at.parent.resolve() / at.name))
    if not _is_root() or any(layer.fs_type == FS_TYPE for layer in layers):
        return
    _make_folder(at)
    _mount_connection(mounted.fd, at)


def close_mount(mounted: InitializedMount) -> None:
    """Unmount it and end the connection: open reads get ENOTCONN. Raises MountError."""
    try:
        _unmount(mounted.mountpoint)
    finally:
        os.close(mounted.fd)


def set_read_ahead(mountpoint: Path, size: int = READ_AHEAD, bdi: Path = _BDI) -> bool:
    """Set the kernel's read-ahead for files of a Stoker FUSE mount that are opened from now on.

    Return False without such a mount. Raises OSError, for example if /sys is read-only. The setting affects only this
    mount, which has its own device. Other file systems lie on the administrator's shared disks and stay unchanged.
    """
    top = mountinfo.read_layers(str(mountpoint))[-1:]
    for row in top:
        if row.fs_type == FS_TYPE:
            (bdi / row.device / "read_ahead_kb").write_text(str(size // 1024))
            return True
    return False


def clear_dead_mounts(root: Path) -> list[str]:
    """Detach Stoker's FUSE mounts below ``root`` with a dead server, which a killed keeper leaves.

    Return their targets.
    """
    ours = [mount.target for mount in mountinfo.below(mountinfo.read(), str(root)) if mount.fs_type == FS_TYPE]
    dead = [target for target in reversed(ours) if is_dead(target)]
    for target in dead:
        _unmount(Path(target))
    return dead


def is_dead(target: str) -> bool:
    """Return True if the FUSE connection of the mount at ``target`` has ended. Waits for a slow live server.

    Never call it from a process that holds the mount's descriptor: if killed during the wait, it could not end.
    """
    try:
        os.statvfs(target)  # not stat: the kernel caches the attributes for a year, and answers for a dead server
    except OSError as error:
        return error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    return False


def unmount_as_user(mountpoint: str) -> None:
    """Unmount the top mount of a user's folder; it ends with its last user. Raises MountError."""
    _run_fusermount(f"unmounting {mountpoint}", ["-u", "-z", "--", mountpoint], dict(os.environ))


def _is_root() -> bool:
    return os.geteuid() == 0


def _mount_as_root(mountpoint: Path) -> int:
    fd = _open_device()
    try:
        _mount_connection(fd, mountpoint)
    except MountError:
        os.close(fd)
        raise
    return fd


def _mount_connection(fd: int, mountpoint: Path) -> None:
    # default_permissions: the kernel checks modes. allow_other: pods run as any user.
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
    mount("stoker", str(mountpoint), FS_TYPE, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME, options)


def _mount_as_user(mountpoint: str, *, allow_other: bool) -> int:
    """Mount at a user's folder. Return the descriptor of the uninitialized FUSE connection. Raises MountError.

    ``allow_other`` is for all users, if /etc/fuse.conf permits it. The helper opens the device, mounts, and passes the
    descriptor over the socket in its environment.
    """
    options = _USER_OPTIONS + (",allow_other" if allow_other else "")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        environment = {**os.environ, "_FUSE_COMMFD": str(theirs.fileno())}
        _run_fusermount(f"mounting at {mountpoint}", ["-o", options, "--", mountpoint], environment, theirs.fileno())
        ours.setblocking(False)  # the helper has ended: everything it sent is here
        try:
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        except BlockingIOError:
            descriptors = []
    if not descriptors:
        raise MountError(
            errno.EPROTO, f"{FUSERMOUNT} mounted {mountpoint} and gave no descriptor: update Debian's fuse3"
        )
    os.set_inheritable(descriptors[0], False)
    return descriptors[0]


def _run_fusermount(what: str, arguments: list[str], environment: dict[str, str], *keep: int) -> None:
    program = shutil.which(FUSERMOUNT)
    if program is None:
        raise MountError(errno.ENOENT, f"{what}: there is no {FUSERMOUNT}: install the package fuse3")
    try:
        ran = subprocess.run(
            [program, *arguments],
            env=environment,
            pass_fds=keep,
            capture_output=True,
            timeout=_HELPER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MountError(getattr(error, "errno", None) or errno.ETIMEDOUT, f"{what}: {error}") from error
    if ran.returncode != 0:
        said = ran.stderr.decode(errors="replace").strip() or f"{FUSERMOUNT} ended with code {ran.returncode}"
        raise MountError(errno.EPERM, f"{what}: {said}")


def _unmount(mountpoint: Path) -> None:
    if _is_root():
        detach(str(mountpoint))
        _remove_folder(mountpoint)
    else:  # a folder of that user, who cannot bind a mount from elsewhere to it
        unmount_as_user(str(mountpoint))


def _make_folder(mountpoint: Path) -> None:
    try:
        mountpoint.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MountError(error.errno or 0, f"making the mount point {mountpoint}: {error.strerror}") from error


def _remove_folder(mountpoint: Path) -> None:
    """Remove the mount point, and the dataset's folder above it after its last version."""
    with suppress(OSError):  # a layer below, another version, or a person's files: leave them
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
        # A server must see "no request" instead of blocking when a request is withdrawn between poll and read.
        os.set_blocking(fd, False)
    return init.can_resend
