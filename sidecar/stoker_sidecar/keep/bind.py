"""Read-only bind mounts: atomic where the kernel can (5.12), in two steps elsewhere."""

import ctypes
import errno
import os

from stoker_sidecar.errors import MountError
from stoker_sidecar.keep.syscalls import MS_BIND, MS_NODEV, MS_NOSUID, MS_RDONLY, MS_REMOUNT, mount

# Numbers and flags of linux/mount.h; the same on every architecture since they were added to all at once.
_SYS_OPEN_TREE = 428
_SYS_MOVE_MOUNT = 429
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_OPEN_TREE_CLONE = 0x1
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_READ_ONLY = 0x1 | 0x2 | 0x4  # MOUNT_ATTR_RDONLY | NOSUID | NODEV
_MS_PRIVATE = 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def bind_read_only(source: str, target: str) -> None:
    """Show the folder ``source`` at ``target``: read-only, no setuid, no devices. Raises MountError.

    Where something is mounted at ``target`` already, the new mount lies over it; it is never writable, not for an instant,
    on kernels from 5.12.
    """
    try:
        _bind_atomically(source, target)
    except MountError as error:
        if error.errno != errno.ENOSYS:
            raise
        mount(source, target, "", MS_BIND)
        mount("", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _bind_atomically(source: str, target: str) -> None:
    what = f"showing {source} at {target}"
    tree = _call(what, _SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(source), _OPEN_TREE_CLONE | os.O_CLOEXEC)
    try:
        attributes = _MountAttributes(attr_set=_READ_ONLY, propagation=_MS_PRIVATE)
        size = ctypes.sizeof(attributes)
        _call(what, _SYS_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), size)
        _call(what, _SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.close(tree)


def _call(what: str, number: int, *arguments: object) -> int:
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = _libc.syscall(ctypes.c_long(number), *converted)
    if result < 0:
        code = ctypes.get_errno()
        raise MountError(code, f"{what}: {os.strerror(code)}")
    return result
