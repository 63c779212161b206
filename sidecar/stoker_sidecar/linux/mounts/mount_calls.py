"""Mounts, binds and unmounts by system calls. All raise MountError with a sentence that says what to do."""

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker_sidecar.errors import MountError
from stoker_sidecar.linux import libc
from stoker_sidecar.linux.beneath import open_beneath

# Flags of mount(2) and umount2(2).
MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_REMOUNT = 0x20
MS_NOATIME = 0x400
MS_BIND = 0x1000
_MS_PRIVATE = 1 << 18
_MNT_DETACH = 0x2
_UMOUNT_NOFOLLOW = 0x8
# Numbers and flags of linux/mount.h, equal on all architectures, because all got them at once.
_SYS_OPEN_TREE = 428
_SYS_MOVE_MOUNT = 429
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_OPEN_TREE_CLONE = 0x1
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_WRITABLE = 0x2 | 0x4  # MOUNT_ATTR_NOSUID | NODEV
_READ_ONLY = 0x1 | _WRITABLE  # MOUNT_ATTR_RDONLY

_ADVICE = {
    errno.EPERM: "the sidecar's container needs privileged: true",
    errno.EACCES: "the sidecar's container needs privileged: true",
    errno.ENODEV: "the kernel has no such file system: load its module on the node (modprobe fuse, overlay or erofs)",
    errno.ENOENT: "the folder is gone",
    errno.ENOTDIR: "one side is a folder and the other is not",
    errno.ELOOP: "a symbolic link is where the fetcher makes none: find out what wrote to the cache folder",
    errno.EINVAL: "nothing is mounted there, or the kernel does not know an option",
    errno.ENOTBLK: "the kernel mounts no such file system from a file: Linux 6.12 does",
    errno.ENOTCONN: "the FUSE server behind it is dead",
}


class _MountAttributes(ctypes.Structure):
    """The struct mount_attr of mount_setattr(2)."""

    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


@contextmanager
def _mount_errors(what: str, *, advice: bool = True) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        code = error.errno or 0
        hint = _ADVICE.get(code) if advice else None
        raise MountError(code, f"{what}: {error.strerror}" + (f" ({hint})" if hint else "")) from error


def mount(source: str, target: str, fs_type: str, flags: int, data: str = "") -> None:
    """Mount a file system or change a mount. Raises MountError."""
    with _mount_errors(f"mounting {source or fs_type} on {target}"):
        libc.mount(source, target, fs_type, flags, data)


def detach(target: str) -> None:
    """Unmount the top mount of ``target`` lazily; it ends with its last user. Raises MountError."""
    with _mount_errors(f"unmounting {target}"):
        libc.unmount(target, _MNT_DETACH | _UMOUNT_NOFOLLOW)


def bind_read_only(source: str, target: str, root: Path | None = None) -> None:
    """Mount the folder ``source`` at ``target``: read-only, no setuid, no devices. Raises MountError.

    ``root`` is another user's folder that contains ``source``; no link below it is followed. The new mount covers
    existing ones at ``target``. From Linux 5.12 on it is never writable; older kernels need two steps.
    """
    what = f"showing {source} at {target}"
    with opened(Path(source), root or Path(source), what) as folder:
        try:
            attach(clone_read_only(folder, what), target, what)
        except MountError as error:
            if error.errno != errno.ENOSYS:
                raise
            mount(f"/proc/self/fd/{folder}", target, "", MS_BIND)
            mount("", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)


def bind_writable(source: str, target: str) -> None:
    """Mount the folder ``source`` at ``target``: no setuid, no devices. Raises MountError. Needs Linux 5.12."""
    what = f"showing {source} at {target}"
    with opened(Path(source), Path(source), what) as folder:
        attach(_clone(folder, what, _WRITABLE), target, what)


@contextmanager
def opened(source: Path, root: Path, what: str) -> Iterator[int]:
    """Open the folder ``source``, which is ``root`` or lies beneath it. Links below it are not followed.

    Raises MountError, whose sentence starts with ``what``.
    """
    with _mount_errors(what):
        folder = open_beneath(root, source, os.O_PATH | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        os.close(folder)


def clone_read_only(source: int, what: str) -> int:
    """Clone a detached mount of the open folder ``source``: read-only, no setuid, no devices.

    Return its descriptor. Raises MountError, whose sentence starts with ``what``.
    """
    return _clone(source, what, _READ_ONLY)


def _clone(source: int, what: str, flags: int) -> int:
    with _mount_errors(what, advice=False):
        tree = libc.system_call(_SYS_OPEN_TREE, source, b"", _AT_EMPTY_PATH | _OPEN_TREE_CLONE | os.O_CLOEXEC)
        try:
            attributes = _MountAttributes(attr_set=flags, propagation=_MS_PRIVATE)
            size = ctypes.sizeof(attributes)
            libc.system_call(_SYS_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), size)
        except OSError:
            os.close(tree)
            raise
    return tree


def attach(tree: int, target: str, what: str) -> None:
    """Attach the mount ``tree`` at ``target``, over existing mounts, and close its descriptor. Raises MountError."""
    try:
        with _mount_errors(what, advice=False):
            libc.system_call(_SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.close(tree)


def enter_mount_namespace(pidfd: int, what: str) -> None:
    """Move this process, which must have one thread, into the mount namespace of a pidfd's process.

    Raises MountError, also if that process has ended.
    """
    with _mount_errors(what, advice=False):
        libc.enter_namespace(pidfd, libc.CLONE_NEWNS)
