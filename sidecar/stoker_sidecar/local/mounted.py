"""Mounts of this machine as whoever ends them sees them. Without models: unmounting waits for no import (ADR 131)."""

import fcntl
import json
import os
import select
import shutil
import signal
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stoker_api.mount_places import MOUNT_SPEC
from stoker_sidecar.errors import MountRefused
from stoker_sidecar.linux import mountinfo, mounts
from stoker_sidecar.linux.fuse_device import unmount_as_user
from stoker_sidecar.local.mount_paths import HomePaths, RunPaths

KEEPER = ("-m", "stoker_sidecar.keeper.main")  # words of its command line
# The keeper itself gives agent and fetcher 18 s together.
_END_SECONDS = 30.0
# A command that has the lock starts its keeper at once; its command line is there a moment later.
_START_SECONDS = 5.0
_PEER = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid


class _Note(NamedTuple):
    """What is read of a MountSpec that was written down."""

    uri: str
    folder: Path
    home: Path


@dataclass(frozen=True)
class FoundMount:
    """A mount, or what a killed keeper left of one. ``folder``: where it is mounted."""

    folder: Path
    home: HomePaths
    run: RunPaths

    def pid(self) -> int | None:
        """Return the pid of its keeper, None when it does not run.

        The kernel says who listens. A keeper that begins does not listen yet, and one that ends does not any more.
        """
        return self._listener() or keeper_of(self.run)

    def _listener(self) -> int | None:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self.run.keeper_socket))
            except OSError:
                return None
            peer: tuple[int, int, int] = _PEER.unpack(
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            )
        return peer[0]

    def end(self) -> None:
        """Unmount and end every process; what is cached stays. Raises MountError."""
        deadline = time.monotonic() + _START_SECONDS
        while (pid := self.pid()) is None and is_locked(self.home) and time.monotonic() < deadline:
            time.sleep(0.05)
        if pid is not None:
            _end(pid)
        self.clear()

    def clear(self) -> None:
        """Take off what a killed keeper left. Raises MountError."""
        if os.geteuid() == 0:
            mounts.unmount_all(self.folder)
            for layer in reversed(mountinfo.below(mountinfo.read(), str(self.home.mounts))):
                mounts.unmount_all(Path(layer.target))
        else:
            for _ in mounts.layers(self.folder):
                unmount_as_user(str(self.folder))
        self.home.mount_table.unlink(missing_ok=True)
        shutil.rmtree(self.run.folder, ignore_errors=True)


def keeper_of(run: RunPaths) -> int | None:
    """Return the pid of the keeper that was started with this run folder, by its command line; None: there is none."""
    words = os.fsencode("\0".join(("", *KEEPER, "--run-dir", str(run.folder), "")))
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            # A process that the keeper has just forked has its words, too, but leads no session.
            if words in line.read_bytes() and os.getsid(pid := int(line.parent.name)) == pid:
                return pid
    return None


def lock(home: HomePaths) -> int:
    """Return a descriptor that holds the home's lock. Raises MountRefused when a keeper works there, and OSError."""
    home.folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # what is cached is for those who may read the source
    descriptor = os.open(home.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise MountRefused(_in_use(home)) from None
    return descriptor


def _in_use(home: HomePaths) -> str:
    try:
        there = _read_note(home.lock)
    except ValueError:  # it is just being started
        return f"another stoker mount is using {home.folder}: wait until it has ended"
    return (
        f"{there.uri} is mounted at {there.folder} already: read it there, "
        f"unmount it (stoker umount {there.folder}), or give this mount a cache folder of its own (--cache)"
    )


def is_locked(home: HomePaths) -> bool:
    """Return whether a keeper works there now."""
    try:
        os.close(lock(home))
    except MountRefused:
        return True
    return False


def all_mounted(runs: Path) -> list[FoundMount]:
    """Return all mounts of this user, also those whose keeper was killed."""
    found = []
    for path in sorted(runs.glob(f"*/{MOUNT_SPEC}")):
        with suppress(OSError, ValueError):  # just being written, or just being removed
            note = _read_note(path)
            found.append(FoundMount(note.folder, HomePaths(note.home), RunPaths(path.parent)))
    return found


def clear_leftovers(runs: Path) -> None:
    """Unmount whatever killed keepers left mounted. Raises MountError."""
    for one in all_mounted(runs):
        with suppress(MountRefused):  # it runs
            held = lock(one.home)
            try:
                one.clear()
            finally:
                os.close(held)


def _read_note(path: Path) -> _Note:
    """Read what ``MountSession.start`` wrote. Raises OSError, and ValueError where it is not that."""
    spec = json.loads(path.read_text())
    try:
        uri, folder, home = spec["source"]["uri"], Path(spec["folder"]), Path(spec["home"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is no note of a mount") from error
    if not (folder.is_absolute() and home.is_absolute()):
        raise ValueError(f"{path} names a folder that is not absolute")
    return _Note(str(uri), folder, home)


def _end(pid: int) -> None:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(process, number)
            if select.select([process], [], [], _END_SECONDS)[0]:
                return
    except ProcessLookupError:
        return
    finally:
        os.close(process)
