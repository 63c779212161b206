"""Reports all pages of a file that were ever loaded into memory: current ones, and reclaimed ones."""

import ctypes
import os
from pathlib import Path

from stoker_sidecar.linux import libc

_SYS_CACHESTAT = 451
_PAGE = os.sysconf("SC_PAGESIZE")


def brought_bytes(path: Path) -> int:
    """Return bytes in whole pages, since the file's pages were dropped (POSIX_FADV_DONTNEED, which leaves no trace).

    A page that the kernel reclaims leaves a shadow entry. The kernel decides which pages are in memory, above all in a
    cgroup at its limit. Raises OSError before Linux 6.5.
    """
    wanted, found = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        libc.system_call(_SYS_CACHESTAT, descriptor, ctypes.byref(wanted), ctypes.byref(found), 0)
    finally:
        os.close(descriptor)
    cached, _, _, evicted, _ = found
    return int(cached + evicted) * _PAGE
