"""Inspects and drops the kernel's caches: pages of a file, names of a file system."""

import ctypes
import os
from pathlib import Path

from stoker_sidecar.linux import libc
from stoker_sidecar.linux.mounts.mount_calls import MS_NOATIME, MS_NODEV, MS_NOSUID, MS_RDONLY, MS_REMOUNT, mount
from stoker_sidecar.linux.mounts.mountinfo import Mount

DROP_CACHES = Path("/proc/sys/vm/drop_caches")
_SYS_CACHESTAT = 451  # Linux 6.5; the same on every architecture
_PAGE = os.sysconf("SC_PAGESIZE")
_KEPT_FLAGS = {
    "ro": MS_RDONLY,
    "nosuid": MS_NOSUID,
    "nodev": MS_NODEV,
    "noexec": 0x8,
    "noatime": MS_NOATIME,
    "nodiratime": 0x800,
    "relatime": 1 << 21,
}


class _Range(ctypes.Structure):
    """The struct cachestat_range; a length of 0 extends to the end."""

    _fields_ = (("off", ctypes.c_uint64), ("len", ctypes.c_uint64))


class _CacheStat(ctypes.Structure):
    """The struct cachestat, in pages."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted"))


def cached_bytes(descriptor: int, offset: int = 0, length: int = 0) -> int | None:
    """Return the cached bytes of an open file or a range of it; None if the kernel does not report them.

    Counted in whole pages. ``length`` 0 means everything after ``offset``.
    """
    found = _CacheStat()
    try:
        libc.system_call(_SYS_CACHESTAT, descriptor, ctypes.byref(_Range(offset, length)), ctypes.byref(found), 0)
    except OSError:
        return None
    return int(found.cache) * _PAGE


def drop_pages(descriptor: int) -> None:
    """Drop an open file's pages, except mapped and dirty ones. Raises OSError."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def drop_names(there: Mount) -> None:
    """Drop unused names and attributes of a file system, and their pages.

    It remounts with the current options, and the kernel then drops unused names. Only for Stoker's file systems (FUSE,
    overlay). Raises MountError.
    """
    flags = sum(_KEPT_FLAGS[option] for option in set(there.options) & _KEPT_FLAGS.keys())
    mount(there.source, there.target, there.fs_type, MS_REMOUNT | flags)


def drop_of_the_machine(*, pages: bool, names: bool) -> None:
    """Drop all caches that the kernel can, for all file systems of the machine. Raises OSError."""
    os.sync()
    DROP_CACHES.write_text(str(pages + 2 * names))
