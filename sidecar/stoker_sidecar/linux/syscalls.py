"""mount(2) and its kin through ctypes: each call either works or raises MountError with a sentence."""

import ctypes
import errno as errno_names
import os

from stoker_sidecar.errors import MountError

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_REMOUNT = 0x20
MS_NOATIME = 0x400
MS_BIND = 0x1000
_MNT_DETACH = 0x2
_UMOUNT_NOFOLLOW = 0x8

_libc = ctypes.CDLL(None, use_errno=True)
_ADVICE = {
    errno_names.EPERM: "the sidecar's container needs privileged: true",
    errno_names.EACCES: "the sidecar's container needs privileged: true",
    errno_names.ENODEV: "the kernel has no such file system: load its module on the node (modprobe fuse)",
    errno_names.ENOENT: "the folder is gone",
    errno_names.ENOTDIR: "one side is a folder and the other is not",
    errno_names.EINVAL: "nothing is mounted there, or the kernel does not know an option",
    errno_names.ENOTCONN: "the FUSE server behind it is dead",
}


def _failed(what: str) -> MountError:
    code = ctypes.get_errno()
    advice = _ADVICE.get(code)
    return MountError(code, f"{what}: {os.strerror(code)}" + (f" ({advice})" if advice else ""))


def mount(source: str, target: str, fs_type: str, flags: int, data: str = "") -> None:
    """mount(2). Raises MountError."""
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), fs_type.encode(), ctypes.c_ulong(flags), data.encode() or None
    )
    if result != 0:
        raise _failed(f"mounting {source or fs_type} on {target}")


def detach(target: str) -> None:
    """Take the top mount off ``target`` at once; it ends when its last user does. Raises MountError."""
    if _libc.umount2(os.fsencode(target), _MNT_DETACH | _UMOUNT_NOFOLLOW) != 0:
        raise _failed(f"unmounting {target}")
