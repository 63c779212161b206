"""The kernel's descriptor-based mount calls (5.2 to 5.12) through ctypes: make a mount that nobody sees yet, then attach it."""

import ctypes
import os

from stoker_sidecar.errors import MountError

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
_CLONE_NEWNS = 0x20000

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def clone_read_only(source: str, what: str) -> int:
    """A descriptor of a new mount of the folder ``source``: read-only, no setuid, no devices. Raises MountError."""
    tree = _call(what, _SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(source), _OPEN_TREE_CLONE | os.O_CLOEXEC)
    try:
        attributes = _MountAttributes(attr_set=_READ_ONLY, propagation=_MS_PRIVATE)
        size = ctypes.sizeof(attributes)
        _call(what, _SYS_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), size)
    except MountError:
        os.close(tree)
        raise
    return tree


def attach(mount: int, target: str, what: str) -> None:
    """Show the mount at ``target``, over what is there; takes the descriptor. Raises MountError."""
    try:
        _call(what, _SYS_MOVE_MOUNT, mount, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.close(mount)


def enter_mount_namespace(namespace: int, what: str) -> None:
    """Move this process, which must have one thread, into another mount namespace. Raises MountError."""
    if _libc.setns(namespace, _CLONE_NEWNS) != 0:
        code = ctypes.get_errno()
        raise MountError(code, f"{what}: {os.strerror(code)}")


def _call(what: str, number: int, *arguments: object) -> int:
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = _libc.syscall(ctypes.c_long(number), *converted)
    if result < 0:
        code = ctypes.get_errno()
        raise MountError(code, f"{what}: {os.strerror(code)}")
    return result
