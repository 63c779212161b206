"""Mounts and unmounts FUSE for a user without privileges, through libfuse's setuid helper fusermount3."""

import errno
import os
import shutil
import socket
import subprocess

from stoker_sidecar.errors import MountError

HELPER = "fusermount3"
# The helper makes two system calls; on a machine out of memory even that may take long.
_SECONDS = 10.0
_OPTIONS = "ro,nosuid,nodev,noatime,default_permissions,fsname=stoker,subtype=stoker"


def mount(mountpoint: str, *, allow_other: bool) -> int:
    """Mount at the user's own folder; the descriptor of the FUSE connection, not initialised. Raises MountError.

    ``allow_other``: for all users, where /etc/fuse.conf lets users do so.

    The helper opens the device, mounts, and passes the descriptor over the socket that its environment names.
    """
    options = _OPTIONS + (",allow_other" if allow_other else "")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        environment = {**os.environ, "_FUSE_COMMFD": str(theirs.fileno())}
        _run(f"mounting at {mountpoint}", ["-o", options, "--", mountpoint], environment, theirs.fileno())
        ours.setblocking(False)  # the helper has ended: what it sent is here
        try:
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        except BlockingIOError:
            descriptors = []
    if not descriptors:
        raise MountError(errno.EPROTO, f"{HELPER} mounted {mountpoint} and gave no descriptor: update Debian's fuse3")
    os.set_inheritable(descriptors[0], False)
    return descriptors[0]


def unmount(mountpoint: str) -> None:
    """Take the top mount off; it ends when its last user does. Raises MountError."""
    _run(f"unmounting {mountpoint}", ["-u", "-z", "--", mountpoint], dict(os.environ))


def _run(what: str, arguments: list[str], environment: dict[str, str], *keep: int) -> None:
    program = shutil.which(HELPER)
    if program is None:
        raise MountError(errno.ENOENT, f"{what}: there is no {HELPER}: install the package fuse3")
    try:
        ran = subprocess.run(
            [program, *arguments], env=environment, pass_fds=keep, capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MountError(getattr(error, "errno", None) or errno.ETIMEDOUT, f"{what}: {error}") from error
    if ran.returncode != 0:
        said = ran.stderr.decode(errors="replace").strip() or f"{HELPER} ended with code {ran.returncode}"
        raise MountError(errno.EPERM, f"{what}: {said}")
