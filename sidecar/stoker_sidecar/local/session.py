"""One mount's processes, from outside: locks its home, starts and ends its keeper, clears what a killed one left."""

import fcntl
import os
import select
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stoker_api.meta import MOST_BYTES
from stoker_sidecar.errors import MountRefused
from stoker_sidecar.linux import libc, mountinfo, mounts
from stoker_sidecar.linux.fuse_device import unmount_as_user
from stoker_sidecar.local.mount_spec import FLOOR, HomePaths, MountSpec, RunPaths
from stoker_sidecar.store.core.location import FolderLocation, parse_location

# The keeper itself gives agent and fetcher 18 s together.
_END_SECONDS = 30.0
# A command that has the lock starts its keeper at once; its command line is there a moment later.
_START_SECONDS = 5.0
_PEER = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid
_KEEPER = ("-m", "stoker_sidecar.keeper.main")
_AGENT = ("-m", "stoker_sidecar.local.agent")
_FLOOR_OPTIONS = (f"--floor-bytes={FLOOR.bytes}", f"--floor-inodes={FLOOR.inodes}")
_FETCHER = ("-m", "stoker_sidecar.fetcher.main")
# Who mounts asks in their own name, and may ask their own machine.
_ANY_ENDPOINT = ("--endpoint-networks", "0.0.0.0/0,::/0")


@dataclass(frozen=True)
class MountSession:
    """One mount's processes, seen from outside: a keeper and its children. ``spec``: what it was started for."""

    spec: MountSpec
    run: RunPaths

    @property
    def home(self) -> HomePaths:
        """Return the paths of what it keeps on the disk."""
        return HomePaths(self.spec.home)

    def start(self, lock: int, environment: Mapping[str, str], *, with_parent: bool) -> "subprocess.Popen[bytes]":
        """Start the keeper, which holds ``lock`` from now on.

        ``with_parent``: it ends, cleanly, when this process does.

        Raises OSError.
        """
        home, run = self.home, self.run
        shutil.rmtree(run.folder, ignore_errors=True)
        run.folder.mkdir(mode=0o700, parents=True)
        home.mount_table.unlink(missing_ok=True)
        text = self.spec.model_dump_json(by_alias=True)
        for note in (run.spec, home.lock):
            note.write_text(text)
        with home.log.open("wb") as log:
            return subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=dict(environment),
                pass_fds=(lock,),
                start_new_session=True,  # Ctrl-C is for the command, which ends the keeper in order
                preexec_fn=_end_with_parent if with_parent else None,  # noqa: PLW1509  one thread
            )

    def _command(self) -> list[str]:
        home = self.home
        # A user without privileges mounts at the folder itself, and not below a folder of ours.
        mount_root = home.mounts if os.geteuid() == 0 else self.spec.folder.parent
        command = [sys.executable, *_KEEPER, "--run-dir", str(self.run.folder), "--run-as", ""]
        command += ["--mount-root", str(mount_root), "--cache-root", str(home.cache)]
        command += ["--agent-command", shlex.join([sys.executable, *_AGENT])]
        fetcher = [sys.executable, *_FETCHER, *_FLOOR_OPTIONS, *_ANY_ENDPOINT, *self._host_folder()]
        fetcher += [f"--cpus={self.spec.cpus}"]
        # Only root's mounts become native.
        fetcher += ["--last-files=" + ("Auto" if self.spec.last_files and os.geteuid() == 0 else "Off")]
        fetcher += [f"--pinned-memory={MOST_BYTES}"] if self.spec.pins else []
        command += ["--fetcher-command", shlex.join(fetcher)]
        command += ["--pinned-memory", str(MOST_BYTES)] if self.spec.pins else []
        command += ["--allow-other", "yes"] if self.spec.allow_other else []
        command += ["--confine", "Off"]  # what it reads and writes is one person's own, wherever that lies (ADR 37)
        command += ["--observe", self._observed()]
        # Who is not looked at is not listened to either: what is said of an order is held against what is read.
        command += ["--reports", "On", "--reports-root", str(self.run.reports)] if self.spec.observe else []
        if self.spec.plugins or self.spec.order_plugin:  # they run as who mounts, whose packages they are
            command += ["--plugins", ",".join(self.spec.plugins), "--plugins-run-as", ""]
            command += ["--order-plugins", self.spec.order_plugin]
        return [*command, "--", "--run-dir", str(self.run.folder)]

    def _observed(self) -> str:
        """Say what the agent is told of reads: a file of rules may ask for numbers that are found by FUSE's alone."""
        if self.spec.observe:
            return "Auto"
        return "Fuse" if self.spec.tuning is not None and self.spec.tuned else "Off"

    def _host_folder(self) -> list[str]:
        """Who mounts a folder may read it; nothing beside it is read, wherever links lead."""
        location = parse_location(self.spec.source.uri)
        return ["--host-folder", str(location.path)] if isinstance(location, FolderLocation) else []

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
            mounts.unmount_all(self.spec.folder)
            for layer in reversed(mountinfo.below(mountinfo.read(), str(self.home.mounts))):
                mounts.unmount_all(Path(layer.target))
        else:
            for _ in mounts.layers(self.spec.folder):
                unmount_as_user(str(self.spec.folder))
        self.home.mount_table.unlink(missing_ok=True)
        shutil.rmtree(self.run.folder, ignore_errors=True)


def keeper_of(run: RunPaths) -> int | None:
    """Return the pid of the keeper that was started with this run folder, by its command line; None: there is none."""
    words = os.fsencode("\0".join(("", *_KEEPER, "--run-dir", str(run.folder), "")))
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
        there = MountSpec.model_validate_json(home.lock.read_text())
    except ValueError:  # it is just being started
        return f"another stoker mount is using {home.folder}: wait until it has ended"
    return (
        f"{there.source.uri} is mounted at {there.folder} already: read it there, "
        f"unmount it (stoker umount {there.folder}), or give this mount a cache folder of its own (--cache)"
    )


def is_locked(home: HomePaths) -> bool:
    """Return whether a keeper works there now."""
    try:
        os.close(lock(home))
    except MountRefused:
        return True
    return False


def all_sessions(runs: Path) -> list[MountSession]:
    """Return all sessions of this user, also those whose keeper was killed."""
    found = []
    for note in sorted(runs.glob("*/spec.json")):
        with suppress(OSError, ValueError):  # just being written, or just being removed
            found.append(MountSession(MountSpec.model_validate_json(note.read_text()), RunPaths(note.parent)))
    return found


def clear_leftovers(runs: Path) -> None:
    """Unmount whatever killed keepers left mounted. Raises MountError."""
    for session in all_sessions(runs):
        with suppress(MountRefused):  # it runs
            held = lock(session.home)
            try:
                session.clear()
            finally:
                os.close(held)


def _end_with_parent() -> None:
    """End the child, in which this runs, when its parent ends."""
    libc.end_with_parent(signal.SIGTERM)


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
