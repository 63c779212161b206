"""The FUSE servers of this node: one for each mounted dataset version, each restarted on the descriptor it left."""

import asyncio
import logging
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from stoker_sidecar.errors import MountError, ServeError
from stoker_sidecar.keep.children import Child, Reaper, Start
from stoker_sidecar.keep.device import FuseMount, close_mount, open_mount
from stoker_sidecar.keep.restarts import QUICK

_log = logging.getLogger("stoker.keeper")
_READY_WITHIN = 20.0  # a server starts in 0.3 s; a node under memory pressure may take long
_TRIES = 3  # a server that ended this often in a row will not come up by trying again


@dataclass(frozen=True)
class Version:
    """One dataset version to serve: where its manifest and its bytes are, and where it is mounted."""

    uid: str
    digest: str
    manifest: Path
    version_dir: Path
    mountpoint: Path


@dataclass
class Served:
    """A mount and the server that answers it now. ``settled``: it is known whether a server comes up."""

    version: Version
    mount: FuseMount | None
    child: Child
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    ready: bool = False
    was_ready: bool = False
    ready_fd: int = -1


class FsServers:
    """Mounts and their servers, by (uid, digest). ``uid`` of the process: ``run_as`` (None: the keeper's own)."""

    def __init__(self, reaper: Reaper, fetcher_socket: Path, run_as: int | None, log_level: str) -> None:
        self._reaper = reaper
        self._fetcher_socket = fetcher_socket
        self._run_as = run_as
        self._log_level = log_level
        self._served: dict[tuple[str, str], Served] = {}

    async def serve(self, version: Version) -> None:
        """Mount ``version`` and return when a server answers; again for the same version: just wait for that.

        Raises MountError, and ServeError when no server came up in time (the mount is then taken away again).
        """
        key = (version.uid, version.digest)
        served = self._served.get(key) or self._begin(version)
        if served.version != version:
            raise ServeError(f"{key} is already served at {served.version.mountpoint}: release it first")
        with suppress(TimeoutError):
            await asyncio.wait_for(served.settled.wait(), _READY_WITHIN)
        if not served.ready:
            ends = served.child.history.in_a_row
            if not served.was_ready:  # else others use the mount, and wait
                await self.release(*key)
            raise ServeError(
                f"the FUSE server of {version.uid} version {version.digest[:12]} does not come up (it ended {ends} times "
                f"in a row, {_READY_WITHIN:.0f} s at most were waited): the sidecar's log has its last words"
            )

    def _begin(self, version: Version) -> Served:
        child = Child(f"fs {version.uid} {version.digest[:12]}", self._reaper, lambda: self._start(served), QUICK)
        served = Served(version, open_mount(version.mountpoint), child)
        self._served[version.uid, version.digest] = served
        child.begin()
        return served

    def _start(self, served: Served) -> Start:
        served.ready = False
        if served.child.history.in_a_row < _TRIES:
            served.settled.clear()
        else:
            served.settled.set()
        mount = self._mount_to_answer(served)
        version = served.version
        ready_fd = self._watch_ready(served)
        command = [sys.executable, "-m", "stoker_sidecar.fs.server"]
        command += ["--fd", str(mount.fd), "--ready-fd", str(ready_fd)]
        command += ["--uid", version.uid, "--digest", version.digest]
        command += ["--manifest", str(version.manifest), "--version-dir", str(version.version_dir)]
        command += ["--fetcher-socket", str(self._fetcher_socket), "--log-level", self._log_level]
        command += ["--resend"] if mount.can_resend else []
        return Start(command, self._run_as, (mount.fd, ready_fd))

    @staticmethod
    def _mount_to_answer(served: Served) -> FuseMount:
        """The mount as it is, or a new one where the old cannot be answered any more.

        That is so when the server ended well, which it does when the mount is gone; and before Linux 6.9, where the requests
        that a dead server had taken are lost: ending the connection lets their readers fail instead of wait for ever.
        """
        child, mount = served.child, served.mount
        if mount is not None and (child.history.restarts == 0 or (mount.can_resend and child.last_code != 0)):
            return mount
        served.mount = None
        if mount is not None:
            with suppress(MountError):  # someone else took it away: what we want
                close_mount(mount)
        try:
            served.mount = open_mount(served.version.mountpoint)
        except MountError as error:
            raise OSError(error.errno, str(error)) from error
        return served.mount

    def _watch_ready(self, served: Served) -> int:
        """A pipe into which the server writes one byte when it answers; returns the end that it inherits."""
        self._close_ready(served)
        reading, writing = os.pipe()
        served.ready_fd = reading

        def readable() -> None:
            if os.read(reading, 1):
                served.ready = served.was_ready = True
                served.settled.set()
                served.child.is_ready()
            self._close_ready(served)

        loop = asyncio.get_running_loop()
        loop.add_reader(reading, readable)
        # The child has its own copy by the time that the loop runs again; ours must go, or its end is never seen.
        loop.call_soon(os.close, writing)
        return writing

    @staticmethod
    def _close_ready(served: Served) -> None:
        if served.ready_fd >= 0:
            asyncio.get_running_loop().remove_reader(served.ready_fd)
            os.close(served.ready_fd)
            served.ready_fd = -1

    async def release(self, uid: str, digest: str) -> None:
        """Unmount and end the server; nothing to do when it is not served. Raises MountError."""
        served = self._served.pop((uid, digest), None)
        if served is None:
            return
        self._close_ready(served)
        try:
            if served.mount is not None:
                close_mount(served.mount)
        finally:
            await served.child.stop(grace=0)  # it has no state to save

    async def release_all(self) -> None:
        """Leave no mount of ours behind."""
        for uid, digest in list(self._served):
            try:
                await self.release(uid, digest)
            except MountError as error:
                _log.error("%s", error)

    async def stop_all(self) -> None:
        """End the servers and leave their mount points as they are."""
        for served in self._served.values():
            self._close_ready(served)
            await served.child.stop(grace=0)

    def rows(self) -> list[dict[str, object]]:
        """What `list` answers: one row a mount."""
        return [
            {
                "uid": served.version.uid,
                "digest": served.version.digest,
                "mountpoint": str(served.version.mountpoint),
                "pid": served.child.pid,
                "restarts": served.child.history.restarts,
                "ready": served.ready,
            }
            for served in self._served.values()
        ]
