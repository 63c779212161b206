"""Keeps contents and names of files in memory: locked mappings, and path-only descriptors."""

import os
import resource
from contextlib import suppress
from pathlib import Path

from stoker_sidecar.linux import libc

_PROT_READ, _MAP_SHARED = 1, 1
_PAGE = os.sysconf("SC_PAGESIZE")
_VMSTAT = Path("/proc/vmstat")
# Descriptors and mappings for the rest of the process: connections, open files, libraries.
_OTHER_DESCRIPTORS, _OTHER_MAPPINGS = 4096, 16_384
_MOST_FILES = 2**20  # fs.nr_open of the kernel's default
_USUAL_MAPPINGS = 65_530
MAX_MAP_COUNT = Path("/proc/sys/vm/max_map_count")
# The files that this module reads.
FACTS = (str(_VMSTAT), str(MAX_MAP_COUNT))


class LockedRange:
    """The mapped beginning of a file, locked in memory until ``release``.

    ``length`` is the locked bytes, and ``size`` the mapped bytes. ``inode`` is the file's inode number.
    """

    __slots__ = ("_address", "inode", "length", "size")

    def __init__(self, address: int, size: int, inode: int) -> None:
        self._address = address
        self.size = size
        self.inode = inode
        self.length = 0

    @classmethod
    def map(cls, descriptor: int, size: int) -> "LockedRange":
        """Map a file without locking. The descriptor may be closed afterwards. Raises OSError."""
        inode = os.fstat(descriptor).st_ino
        return cls(libc.map_file(descriptor, size, _PROT_READ, _MAP_SHARED), size, inode)

    def resize(self, length: int) -> None:
        """Lock ``length`` bytes, reading missing ones from the disk, or unlock the rest.

        Blocks. Raises OSError; EPERM, ENOMEM and EAGAIN mean that this process may lock no further memory.
        """
        if length > self.length:
            libc.lock_memory(self._address, length)
        elif (first := -(-length // _PAGE) * _PAGE) < self.size:
            libc.unlock_memory(self._address + first, self.size - first)
        self.length = length

    def release(self) -> None:
        """Unmap the range. Call once."""
        libc.unmap(self._address, self.size)


def hold_name(path: str) -> int:
    """Return a descriptor that keeps name and attributes of a file or folder in memory. Raises OSError."""
    return os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)


def grant_limits(pid: int) -> None:
    """Let another process lock memory and open many files, if this process may grant that, as root may."""
    for limit, most in ((resource.RLIMIT_MEMLOCK, resource.RLIM_INFINITY), (resource.RLIMIT_NOFILE, _MOST_FILES)):
        with suppress(OSError, ValueError):
            _, hard = resource.prlimit(pid, limit)
            if hard != resource.RLIM_INFINITY and (most == resource.RLIM_INFINITY or hard < most):
                resource.prlimit(pid, limit, (most, most))


def raise_limits() -> None:
    """Raise the limits on locked memory and open files to their maximum."""
    for limit in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE):
        _, hard = resource.getrlimit(limit)
        with suppress(OSError, ValueError):
            resource.setrlimit(limit, (hard, hard))


def most_names() -> int:
    """Return the number of names that this process may hold."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(0, soft - _OTHER_DESCRIPTORS) if soft != resource.RLIM_INFINITY else 2**20


def most_ranges(setting: Path = MAX_MAP_COUNT) -> int:
    """Return the number of ranges that this process may lock."""
    most = _USUAL_MAPPINGS
    with suppress(OSError, ValueError):
        most = int(setting.read_text())
    return max(0, most - _OTHER_MAPPINGS)


def reclaim_text() -> str:
    """Return the kernel's statistics of reclaimed memory; empty if unavailable."""
    try:
        return _VMSTAT.read_text()
    except OSError:
        return ""
