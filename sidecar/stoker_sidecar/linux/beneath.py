"""Opens files beneath a folder of another user without following links there: openat2(2)."""

import ctypes
import errno
import os
import stat
from pathlib import Path

from stoker_sidecar.linux import libc

_SYS_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08


class _OpenHow(ctypes.Structure):
    """The struct open_how of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(root: Path, path: Path, flags: int) -> int:
    """Open ``path``, which lies beneath ``root``, and return its descriptor.

    Links are followed on the way to ``root``, which belongs to the administrator, but not below it. Raises OSError:
    ELOOP for a link, EINVAL if ``path`` does not lie beneath.
    """
    below = os.fsencode(_below(root, path))
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _open_at(folder, below, flags | os.O_CLOEXEC)
    finally:
        os.close(folder)


def open_file_beneath(root: Path, path: Path) -> int:
    """Open a regular file for reading, like ``open_beneath``. Never waits.

    Raises OSError, EINVAL for other file types.
    """
    descriptor = open_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def _below(root: Path, path: Path) -> Path:
    if not path.is_relative_to(root) or ".." in path.parts:
        raise OSError(errno.EINVAL, f"does not lie beneath {root}", str(path))
    return path.relative_to(root)


def _open_at(folder: int, below: bytes, flags: int) -> int:
    how = _OpenHow(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    try:
        return libc.system_call(_SYS_OPENAT2, folder, below, ctypes.byref(how), ctypes.sizeof(how))
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    return _step_by_step(folder, below, flags)


def _step_by_step(folder: int, below: bytes, flags: int) -> int:
    """Do the same on kernels before 5.6: one name at a time, refusing links."""
    *folders, last = below.split(b"/")
    here = os.dup(folder)
    try:
        for name in folders:
            inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = inner
        return os.open(last, flags | os.O_NOFOLLOW, dir_fd=here)
    finally:
        os.close(here)
