"""Mounts of this machine, for ending them. It has no models, so that unmounting imports little (ADR 34)."""

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

from stoker_api.node_caches.mount_places import MOUNT_SPEC
from stoker_sidecar.errors import MountRefused
from stoker_sidecar.linux.mounts import mountinfo, target_mounts
from stoker_sidecar.linux.mounts.fuse_device import unmount_as_user
from stoker_sidecar.linux.mounts.mountinfo import Mount
from stoker_sidecar.local.mounts.mount_paths import HomePaths, RunPaths

KEEPER = ("-m", "stoker_sidecar.keeper.main")  # part of its command line
# The keeper gives agent and fetcher 18 s in total.
_END_SECONDS = 30.0
# A command with the lock starts its keeper at once; its command line appears a moment later.
_START_SECONDS = 5.0
_PEER = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid


class _Note(NamedTuple):
    """The parts of a stored MountSpec that are needed here."""

    uri: str
    folder: Path
    home: Path


@dataclass(frozen=True)
class FoundMount:
    """A mount, or the remains of one after its keeper was killed. ``folder`` is its mount point."""

    folder: Path
    home: HomePaths
    run: RunPaths

    def pid(self) -> int | None:
        """Return the pid of its keeper, or None if it does not run.

        The kernel reports the listening process. A starting keeper does not listen yet, and an ending one has stopped.
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

    def shown(self, process: int | str = "self") -> list[Mount]:
        """Return the layers at the folder and the mounts that they show, as ``process`` sees them. Raises OSError."""
        rows = mountinfo.read(process)
        return [*mountinfo.layers(rows, str(self.folder)), *mountinfo.below(rows, str(self.home.mounts))]

    def end(self) -> None:
        """Unmount and end every process; cached files stay. Raises MountError."""
        deadline = time.monotonic() + _START_SECONDS
        while (pid := self.pid()) is None and is_locked(self.home) and time.monotonic() < deadline:
            time.sleep(0.05)
        if pid is not None:
            _end(pid)
        self.clear()

    def clear(self) -> None:
        """Unmount the remains of a killed keeper. Raises MountError."""
        if os.geteuid() == 0:
            target_mounts.unmount_all(self.folder)
            for layer in reversed(mountinfo.below(mountinfo.read(), str(self.home.mounts))):
                target_mounts.unmount_all(Path(layer.target))
        else:
            for _ in target_mounts.layers(self.folder):
                unmount_as_user(str(self.folder))
        self.home.mount_table.unlink(missing_ok=True)
        shutil.rmtree(self.run.folder, ignore_errors=True)


def keeper_of(run: RunPaths) -> int | None:
    """Return the pid of the keeper with this run folder in its command line, or None."""
    words = os.fsencode("\0".join(("", *KEEPER, "--run-dir", str(run.folder), "")))
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            # A newly forked child of the keeper has the same command line, but is no session leader.
            if words in line.read_bytes() and os.getsid(pid := int(line.parent.name)) == pid:
                return pid
    return None


def lock(home: HomePaths) -> int:
    """Return a descriptor that holds the home's lock. Raises MountRefused if a keeper works there, and OSError."""
    # cached files are only for users who may read the source
    home.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
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
    except ValueError:  # it is starting
        return f"another stoker mount is using {home.folder}: wait until it has ended"
    return (
        f"{there.uri} is mounted at {there.folder} already: read it there, "
        f"unmount it (stoker umount {there.folder}), or give this mount another cache folder (--cache)"
    )


def is_locked(home: HomePaths) -> bool:
    """Return True if a keeper works there now."""
    try:
        os.close(lock(home))
    except MountRefused:
        return True
    return False


def all_mounted(runs: Path) -> list[FoundMount]:
    """Return all mounts of this user, including those of killed keepers."""
    found = []
    for path in sorted(runs.glob(f"*/{MOUNT_SPEC}")):
        with suppress(OSError, ValueError):  # being written, or being removed
            note = _read_note(path)
            found.append(FoundMount(note.folder, HomePaths(note.home), RunPaths(path.parent)))
    return found


def clear_leftovers(runs: Path) -> None:
    """Unmount the remains of killed keepers. Raises MountError."""
    for one in all_mounted(runs):
        with suppress(MountRefused):  # it runs
            held = lock(one.home)
            try:
                one.clear()
            finally:
                os.close(held)


def _read_note(path: Path) -> _Note:
    """Read what ``MountSession.start`` wrote. Raises OSError, and ValueError for other content."""
    spec = json.loads(path.read_text())
    try:
        uri, folder, home = spec["source"]["uri"], Path(spec["folder"]), Path(spec["home"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a mount's spec") from error
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
