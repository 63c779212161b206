"""Which files a process of the sidecar may open that needs no more of the node than it was told of (ADR 37)."""

import logging
import os
import stat
import sys
from collections.abc import Iterable

from stoker_sidecar.linux.landlock import READ, WRITE, FileAccess, PathRule, TcpAccess, abi, restrict, shortcoming

_log = logging.getLogger("stoker.confinement")
# What Python, its libraries and the C library open by themselves: code, names of hosts, CAs, time zones, random bytes.
# Nothing here is a secret: of /etc only what is named.
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
    """What a process may open beside the system's own: folders that it reads and folders that it writes.

    A rule is about the folder that is there when the process is confined. Where another one takes its place (it was
    deleted and made anew, a disk was mounted over it), the process has no right to it: see ``is_outdated``.
    """

    def __init__(self, readable: Iterable[str] = (), writable: Iterable[str] = ()) -> None:
        self._readable, self._writable = tuple(readable), tuple(writable)
        self._were: dict[str, tuple[int, int] | None] = {}

    def rules(self) -> list[PathRule]:
        """Return all that will be allowed."""
        system = [*_PROGRAMS, *(f"/etc/{name}" for name in _ETC), *_FACTS]
        python = [sys.prefix, sys.base_prefix, *(path for path in sys.path if path)]
        devices = [PathRule(path, FileAccess.READ_FILE | FileAccess.WRITE_FILE) for path in _DEVICES]
        read = [PathRule(path, READ) for path in (*system, *python, *self._readable)]
        return [*read, *devices, *(PathRule(path, WRITE) for path in self._writable)]

    def begin(self, *, no_tcp: TcpAccess) -> None:
        """Confine this thread, and all that it starts, for good; where the kernel cannot, say so and go on.

        For a process: to be called while it has one thread, and before it hears of anyone outside. Raises OSError.
        """
        why = shortcoming(abi())
        if why:
            _log.warning("%s: this process may open what its user may", why)
            return
        self.take_note()
        restrict(self.rules(), no_tcp=no_tcp)

    def take_note(self) -> None:
        """Remember which folders there are now, for ``is_outdated``."""
        self._were = {path: _identity(path) for path in (*self._readable, *self._writable)}

    def is_outdated(self) -> bool:
        """Tell whether one of its folders is another one by now. Blocks; False when it is not confined."""
        return any(_identity(path) not in (None, was) for path, was in self._were.items())


def describe(found: int, *, wanted: bool) -> str:
    """Say for people what holds a node's processes, by the kernel's version of Landlock. Pure."""
    why = shortcoming(found) if wanted else "it is turned off (STOKER_CONFINE)"
    return f"None: {why}" if why else f"Landlock, version {found}"


def _identity(path: str) -> tuple[int, int] | None:
    """Tell a folder from others; None for what is none.

    A file of /proc has another inode number whenever the kernel has dropped its name, as it does when memory is short.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 -- one call; a failing disk is None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None
