"""Restricts a process, and all that it starts, to given files: Landlock, see landlock(7)."""

import ctypes
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntFlag

from stoker_sidecar.linux import libc

_SYS_CREATE_RULESET, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
# Before version 2 (Linux 5.19), files could not be renamed between folders, which is how cached files arrive.
OLDEST_ABI = 2
_TRUNCATE_ABI, _TCP_ABI, _IOCTL_ABI, _SCOPES_ABI = 3, 4, 5, 6  # Linux 6.2, 6.7, 6.10, 6.12


class FileAccess(IntFlag):
    """Rights to files and folders; LANDLOCK_ACCESS_FS_* of linux/landlock.h."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


class TcpAccess(IntFlag):
    """Rights to TCP; LANDLOCK_ACCESS_NET_*."""

    BIND = 1
    CONNECT = 2


READ = FileAccess.READ_FILE | FileAccess.READ_DIR
# No devices, pipes, links or executables.
WRITE = (
    READ
    | FileAccess.WRITE_FILE
    | FileAccess.TRUNCATE
    | FileAccess.MAKE_REG
    | FileAccess.MAKE_DIR
    | FileAccess.MAKE_SOCK
    | FileAccess.REMOVE_FILE
    | FileAccess.REMOVE_DIR
    | FileAccess.REFER
)
_OF_A_FILE = (
    FileAccess.EXECUTE | FileAccess.WRITE_FILE | FileAccess.READ_FILE | FileAccess.TRUNCATE | FileAccess.IOCTL_DEV
)
_SCOPES = 0b11  # no signals to, and no abstract sockets of, processes outside the same domain


class _Ruleset(ctypes.Structure):
    """The struct landlock_ruleset_attr: the rights that need a rule."""

    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    """The struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


@dataclass(frozen=True)
class PathRule:
    """The rights to a file, or to a folder and everything beneath it. Unreachable paths are skipped."""

    path: str
    access: FileAccess = READ


def abi() -> int:
    """Return the kernel's Landlock version; 0 if it is missing or disabled."""
    try:
        return libc.system_call(_SYS_CREATE_RULESET, None, 0, _ASK_VERSION)
    except OSError:
        return 0


def shortcoming(found: int) -> str:
    """Return the reason why a kernel with this version cannot confine a process; empty if it can. Pure."""
    if found == 0:
        return "this kernel has no Landlock (Linux 5.13 and later, with landlock among its security modules)"
    if found < OLDEST_ABI:
        return f"this kernel's Landlock (version {found}) is too old: version {OLDEST_ABI} came with Linux 5.19"
    return ""


def restrict(rules: Iterable[PathRule], *, no_tcp: TcpAccess) -> None:
    """Allow this thread, and what it starts from now on, only the rules' files, permanently.

    Open files stay open. ``no_tcp`` is forbidden if the kernel supports it (Linux 6.7), and so are signals to other
    processes (6.12). Call this while the process has one thread. Raises OSError.
    """
    found = abi()
    handled = _files_handled(found)
    ruleset = _Ruleset(handled, no_tcp if found >= _TCP_ABI else 0, _SCOPES if found >= _SCOPES_ABI else 0)
    descriptor = libc.system_call(_SYS_CREATE_RULESET, ctypes.byref(ruleset), ctypes.sizeof(ruleset), 0)
    try:
        for rule in rules:
            _allow(descriptor, rule, handled)
        libc.forgo_new_privileges()
        libc.system_call(_SYS_RESTRICT_SELF, descriptor, 0)
    finally:
        os.close(descriptor)


def _files_handled(found: int) -> FileAccess:
    """Return the file rights of this version: the kernel refuses unknown ones."""
    known = (FileAccess.IOCTL_DEV << 1) - 1
    if found < _IOCTL_ABI:
        known &= ~FileAccess.IOCTL_DEV
    if found < _TRUNCATE_ABI:
        known &= ~FileAccess.TRUNCATE
    return FileAccess(known)


def _allow(ruleset: int, rule: PathRule, handled: FileAccess) -> None:
    try:
        descriptor = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # missing, on a failing disk, or in another user's folder: no right is lost
        return
    try:
        access = rule.access & handled
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= _OF_A_FILE
        beneath = _PathBeneath(access, descriptor)
        libc.system_call(_SYS_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(beneath), 0)
    finally:
        os.close(descriptor)
