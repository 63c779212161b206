"""The FUSE servers of this node: one for each mounted dataset version, each restarted on the descriptor it left."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from stoker_sidecar.errors import MountError, ServeError
from stoker_sidecar.keeper.children import Child, Reaper
from stoker_sidecar.keeper.watchdog import QUICK
from stoker_sidecar.keeper.zygotes import FUSE_SERVERS, ZygotePair
from stoker_sidecar.linux.fuse_device import InitializedMount, close_mount, open_mount
from stoker_sidecar.linux.spawn import Start, end

_log = logging.getLogger("stoker.keeper")
_READY_WITHIN = 20.0  # a server starts in 0.3 s; a node under memory pressure may take long
_TRIES = 3  # a server that ended this often in a row will not come up by trying again


@dataclass(frozen=True)
class ServedVersion:
    """One dataset version to serve: where its manifest and its bytes are, and where it is mounted."""

    uid: str
    digest: str
    manifest: Path
    version_dir: Path
    mountpoint: Path


@dataclass(frozen=True)
class MountInTransfer:
    """A mount that goes from one keeper to another. ``ready``: a server of the predecessor answered it."""

    version: ServedVersion
    mount: InitializedMount
    ready: bool


@dataclass
class FuseServer:
    """One mount and the server process that answers it now. ``settled``: it is known whether one comes up."""

    version: ServedVersion
    mount: InitializedMount | None
    child: Child
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    ready: bool = False
    was_ready: bool = False


class FuseServers:
    """All FUSE mounts of the node and their servers, by (uid, digest).

    ``run_as``: the servers' user (None: the keeper's own). ``folders``: the node's cache folders, which the servers may
    read and nothing else (None: they are not confined). ``access_socket``: where they tell what is read
    (None: nowhere).
    """

    def __init__(
        self,
        reaper: Reaper,
        fetcher_socket: Path,
        run_as: int | None,
        log_level: str,
        mount: Callable[[Path], InitializedMount] = open_mount,
        folders: Sequence[str] | None = None,
        access_socket: Path | None = None,
    ) -> None:
        self.zygotes = ZygotePair(FUSE_SERVERS, reaper, run_as)
        self._reaper = reaper
        self._fetcher_socket = fetcher_socket
        self._run_as = run_as
        self._log_level = log_level
        self._mount = mount
        self._folders = folders
        self._access_socket = access_socket
        self._served: dict[tuple[str, str], FuseServer] = {}

    async def serve(self, version: ServedVersion) -> None:
        """Mount ``version`` and return when a server answers; again for the same version: just wait for that.

        One that was moved to another folder meanwhile is answered from there.

        Raises MountError, and ServeError when no server came up in time (the mount is then taken away again).
        """
        key = (version.uid, version.digest)
        served = self._served.get(key) or self._begin(version, self._mount(version.mountpoint))
        if served.version.mountpoint != version.mountpoint:
            raise ServeError(f"{key} is already served at {served.version.mountpoint}: release it first")
        if served.version != version:
            self._move(served, version)
        with suppress(TimeoutError):
            async with asyncio.timeout(_READY_WITHIN):
                await served.settled.wait()
        if not served.ready:
            if not served.was_ready:  # else others use the mount, and wait
                await self.release(*key)
            raise _does_not_come_up(served)

    @staticmethod
    def _move(served: FuseServer, version: ServedVersion) -> None:
        """Have the next server look in another cache folder, where the version lies now, behind the same mount."""
        served.version = version
        if served.mount is not None and served.mount.can_resend:  # else its readers would be lost with the server
            end(served.child.pid, signal.SIGKILL)

    def _begin(self, version: ServedVersion, mount: InitializedMount) -> FuseServer:
        name = f"fs {version.uid} {version.digest[:12]}"
        served = FuseServer(
            version,
            mount,
            Child(
                name,
                self._reaper,
                lambda: self._start(served),
                QUICK,
                spawn=self.zygotes.spawn,
                until=self.zygotes.until_ready,
                on_ready=lambda: self._is_ready(served),
            ),
        )
        self._served[version.uid, version.digest] = served
        served.child.begin()
        return served

    @staticmethod
    def _is_ready(served: FuseServer) -> None:
        served.ready = served.was_ready = True
        served.settled.set()

    def _start(self, served: FuseServer) -> Start:
        served.ready = False
        if served.child.history.in_a_row < _TRIES:
            served.settled.clear()
        else:
            served.settled.set()
        mount = self._mount_to_answer(served)
        version = served.version
        arguments = ["--uid", version.uid, "--digest", version.digest]
        arguments += ["--manifest", str(version.manifest), "--version-dir", str(version.version_dir)]
        arguments += ["--fetcher-socket", str(self._fetcher_socket), "--log-level", self._log_level]
        arguments += ["--resend"] if mount.can_resend else []
        if self._access_socket is not None:
            arguments += ["--accesses", str(self._access_socket)]
        if self._folders is not None:
            readable = {*self._folders, str(version.version_dir), str(version.manifest.parent)}
            arguments += [word for folder in sorted(readable) for word in ("--readable", folder)]
        return self.zygotes.start(arguments, self._run_as, {"--fd": mount.fd})

    def _mount_to_answer(self, served: FuseServer) -> InitializedMount:
        """Return the mount as it is, or a new one where the old cannot be answered any more.

        That is so when the server ended well, which it does when the mount is gone; and before Linux 6.9, where the
        requests that a dead server had taken are lost: ending the connection lets their readers fail instead of wait
        for ever.
        """
        child, mount = served.child, served.mount
        if mount is not None and (child.history.restarts == 0 or (mount.can_resend and child.last_code != 0)):
            return mount
        served.mount = None
        if mount is not None:
            with suppress(MountError):  # someone else took it away: what we want
                close_mount(mount)
        try:
            served.mount = self._mount(served.version.mountpoint)
        except MountError as error:
            raise OSError(error.errno, str(error)) from error
        return served.mount

    async def release(self, uid: str, digest: str) -> None:
        """Unmount and end the server; nothing to do when it is not served. Raises MountError."""
        served = self._served.pop((uid, digest), None)
        if served is None:
            return
        try:
            if served.mount is not None:
                close_mount(served.mount)
        finally:
            await served.child.stop(grace=0)  # it has no state to save

    async def release_all(self) -> None:
        """Release all: leave no mount of ours behind."""
        for uid, digest in list(self._served):
            try:
                await self.release(uid, digest)
            except MountError as error:
                _log.error("%s", error)

    async def stop_all(self) -> None:
        """End the servers and leave their mount points as they are."""
        await asyncio.gather(*(served.child.stop(grace=0) for served in self._served.values()))

    async def hand_over(self) -> list[MountInTransfer]:
        """End the servers and forget them; the caller must answer or close the mounts that are returned.

        Mounts that no other server could go on with (before Linux 6.9) are unmounted instead.
        """
        for served in list(self._served.values()):
            if served.mount is None or not served.mount.can_resend:
                with suppress(MountError):
                    await self.release(served.version.uid, served.version.digest)
        rows = [
            MountInTransfer(served.version, served.mount, served.ready)
            for served in self._served.values()
            if served.mount is not None
        ]
        await self.stop_all()
        self._served.clear()
        return rows

    async def take_over(self, mounts: Iterable[MountInTransfer]) -> None:
        """Answer mounts of the predecessor; returns when all that it could serve are answered. Raises ServeError.

        Versions that lay in memory of the other pod are not here: their mounts end, and the agent makes new ones.
        """
        begun = [(self._begin(row.version, row.mount), row.ready) for row in mounts if _is_here(row)]
        needed = [served for served, was_ready in begun if was_ready]
        with suppress(TimeoutError):
            async with asyncio.timeout(_READY_WITHIN):
                await asyncio.gather(*(served.settled.wait() for served in needed))
        for served in needed:
            if not served.ready:
                raise _does_not_come_up(served)

    async def drop_all(self) -> None:
        """End the servers and close the descriptors, without touching the mounts: another keeper holds them."""
        await self.stop_all()
        for served in self._served.values():
            if served.mount is not None:
                os.close(served.mount.fd)
        self._served.clear()

    def rows(self) -> list[dict[str, object]]:
        """Return what `list` answers: one row a mount."""
        return [
            {
                "uid": served.version.uid,
                "digest": served.version.digest,
                "mountpoint": str(served.version.mountpoint),
                "pid": served.child.pid,
                "restarts": served.child.history.restarts,
                "ready": served.ready and served.child.pid is not None,
            }
            for served in self._served.values()
        ]


def _is_here(row: MountInTransfer) -> bool:
    if os.access(row.version.manifest, os.F_OK):  # False also where a disk fails, on which Path.exists raises
        return True
    _log.warning("%s is not in this pod: the mount %s ends", row.version.manifest, row.mount.mountpoint)
    with suppress(MountError):  # someone else took it away: what we want
        close_mount(row.mount)
    return False


def _does_not_come_up(served: FuseServer) -> ServeError:
    version, ends = served.version, served.child.history.in_a_row
    return ServeError(
        f"the FUSE server of {version.uid} version {version.digest[:12]} does not come up (it ended {ends} times "
        f"in a row, {_READY_WITHIN:.0f} s at most were waited): the sidecar's log has its last words"
    )
