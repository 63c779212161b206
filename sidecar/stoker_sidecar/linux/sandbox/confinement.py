"""Limits the files that a process of the sidecar can open to those it needs (ADR 15)."""

import logging
import os
import stat
import sys
from collections.abc import Iterable

from stoker_sidecar.linux.sandbox.landlock import (
    READ,
    WRITE,
    FileAccess,
    PathRule,
    TcpAccess,
    abi,
    restrict,
    shortcoming,
)

_log = logging.getLogger("stoker.confinement")
# Files that Python, its libraries and the C library open: code, host names, CAs, time zones, random bytes. None is
# secret: of /etc only the named files.
_PROGRAMS = ("/usr", "/lib", "/lib32", "/lib64")
_ETC = (
    "ca-certificates",
    "crypto-policies",
    "gai.conf",
    "group",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "passwd",
    "pki",
    "protocols",
    "resolv.conf",
    "services",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
)
_FACTS = ("/proc/sys/kernel/random/boot_id", "/run/systemd/resolve")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


class Confinement:
    """The folders that a process may read and write, in addition to the system's files.

    A rule covers the folder that exists when the process is confined. A replacement (recreated, or a disk mounted over
    it) is not accessible: see ``is_outdated``.
    """

    def __init__(self, readable: Iterable[str] = (), writable: Iterable[str] = ()) -> None:
        self._readable, self._writable = tuple(readable), tuple(writable)
        self._were: dict[str, tuple[int, int] | None] = {}

    def rules(self) -> list[PathRule]:
        """Return all rules."""
        system = [*_PROGRAMS, *(f"/etc/{name}" for name in _ETC), *_FACTS]
        python = [sys.prefix, sys.base_prefix, *(path for path in sys.path if path)]
        devices = [PathRule(path, FileAccess.READ_FILE | FileAccess.WRITE_FILE) for path in _DEVICES]
        read = [PathRule(path, READ) for path in (*system, *python, *self._readable)]
        return [*read, *devices, *(PathRule(path, WRITE) for path in self._writable)]

    def begin(self, *, no_tcp: TcpAccess) -> None:
        """Confine this thread, and all that it starts, permanently. Without kernel support, log it and continue.

        For a process: call this while it has one thread, and before it handles outside input. Raises OSError.
        """
        why = shortcoming(abi())
        if why:
            _log.warning("%s: this process may open what its user may", why)
            return
        self.take_note()
        restrict(self.rules(), no_tcp=no_tcp)

    def take_note(self) -> None:
        """Record the current folders for ``is_outdated``."""
        self._were = {path: _identity(path) for path in (*self._readable, *self._writable)}

    def is_outdated(self) -> bool:
        """Return True if one of the folders was replaced. Blocks. Returns False without confinement."""
        return any(_identity(path) not in (None, was) for path, was in self._were.items())


def describe(found: int, *, wanted: bool) -> str:
    """Describe a node's confinement for people, by the kernel's Landlock version. Pure."""
    why = shortcoming(found) if wanted else "it is turned off (STOKER_CONFINE)"
    return f"None: {why}" if why else f"Landlock, version {found}"


def _identity(path: str) -> tuple[int, int] | None:
    """Identify a folder; None for other files.

    A file of /proc gets a new inode number whenever the kernel drops its name, as it does when memory is short.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 -- one call; a failing disk is None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None
