"""The FUSE servers of this node: one for each mounted dataset version, restarted on its predecessor's descriptor."""

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
from stoker_sidecar.keeper.zygotes import FUSE_SERVERS, Zygote
from stoker_sidecar.linux.mounts.fuse_device import InitializedMount, close_mount, open_mount
from stoker_sidecar.linux.spawn import Start, end

_log = logging.getLogger("stoker.keeper")
_READY_WITHIN = 20.0  # a server starts in 0.3 s; a node under memory pressure may take long
_TRIES = 3  # a server that ended this often in a row will not come up


@dataclass(frozen=True)
class ServedVersion:
    """One dataset version to serve: its manifest, its folder, and its mount point."""

    uid: str
    digest: str
    manifest: Path
    version_dir: Path
    mountpoint: Path


@dataclass(frozen=True)
class MountInTransfer:
    """A mount in transfer between keepers. ``ready`` means that a server of the predecessor answered it."""

    version: ServedVersion
    mount: InitializedMount
    ready: bool


@dataclass
class FuseServer:
    """One mount and its current server process. ``settled`` is set when the start has succeeded or failed."""

    version: ServedVersion
    mount: InitializedMount | None
    child: Child
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    ready: bool = False
    was_ready: bool = False


class FuseServers:
    """All FUSE mounts of the node and their servers, by (uid, digest).

    ``run_as`` is the servers' user (None: the keeper's). ``folders`` are the cache folders, the only ones that the
    servers may read (None: unconfined). ``access_socket`` is the socket for their access reports (None: no reports).
    ``on_change`` is called after ``in_service()`` has changed. ``mount_again`` mounts a connection again that another
    program unmounted.
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
        on_change: Callable[[], None] = lambda: None,
        mount_again: Callable[[InitializedMount], None] = lambda mount: None,
    ) -> None:
        self._mount_again = mount_again
        self.zygote = Zygote(FUSE_SERVERS, reaper, run_as)
        self._reaper = reaper
        self._fetcher_socket = fetcher_socket
        self._run_as = run_as
        self._log_level = log_level
        self._mount = mount
        self._folders = folders
        self._access_socket = access_socket
        self._on_change = on_change
        self._served: dict[tuple[str, str], FuseServer] = {}

    async def serve(self, version: ServedVersion) -> None:
        """Mount ``version`` and return when a server answers. A repeated call only waits, and mends the mount point.

        A version that has moved to another folder is served from there. Raises MountError, and ServeError if no server
        came up in time (the mount is then removed).
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
            if not served.was_ready:  # otherwise readers use the mount, and wait
                await self.release(*key)
            raise _does_not_come_up(served)
        if served.mount is not None:
            self._mount_again(served.mount)

    @staticmethod
    def _move(served: FuseServer, version: ServedVersion) -> None:
        """Make the next server use the version's new cache folder, behind the same mount."""
        served.version = version
        if served.mount is not None and served.mount.can_resend:  # otherwise its readers would be lost with the server
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
                spawn=self.zygote.spawn,
                until=self.zygote.until_ready,
                on_ready=lambda: self._is_ready(served),
            ),
        )
        self._served[version.uid, version.digest] = served
        served.child.begin()
        self._on_change()
        return served

    def _is_ready(self, served: FuseServer) -> None:
        served.ready = served.was_ready = True
        served.settled.set()
        self._on_change()

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
        return self.zygote.start(arguments, self._run_as, {"--fd": mount.fd})

    def _mount_to_answer(self, served: FuseServer) -> InitializedMount:
        """Return the current mount, or a new one if the old one cannot be answered.

        That is the case if the server ended well, which it does when the mount is gone. It is also the case before
        Linux 6.9, where the requests of a dead server are lost: ending the connection lets their readers fail instead
        of waiting forever.
        """
        child, mount = served.child, served.mount
        if mount is not None and (child.history.restarts == 0 or (mount.can_resend and child.last_code != 0)):
            return mount
        served.mount = None
        if mount is not None:
            with suppress(MountError):  # already unmounted, as wanted
                close_mount(mount)
        try:
            served.mount = self._mount(served.version.mountpoint)
        except MountError as error:
            raise OSError(error.errno, str(error)) from error
        self._on_change()
        return served.mount

    async def release(self, uid: str, digest: str) -> None:
        """Unmount and end the server. A version without one is no error. Raises MountError."""
        served = self._served.pop((uid, digest), None)
        if served is None:
            return
        try:
            if served.mount is not None:
                close_mount(served.mount)
        finally:
            self._on_change()
            await served.child.stop(grace=0)  # it has no state to save

    async def release_all(self) -> None:
        """Release all, so that no Stoker mount stays behind."""
        for uid, digest in list(self._served):
            try:
                await self.release(uid, digest)
            except MountError as error:
                _log.error("%s", error)

    async def stop_all(self) -> None:
        """End the servers without touching their mount points."""
        await asyncio.gather(*(served.child.stop(grace=0) for served in self._served.values()))

    async def hand_over(self) -> list[MountInTransfer]:
        """End the servers and forget them. The caller must answer or close the returned mounts.

        Mounts that no other server can continue (before Linux 6.9) are unmounted instead.
        """
        await self.leave()
        rows = self.in_service()
        self._served.clear()
        return rows

    def in_service(self) -> list[MountInTransfer]:
        """Return the mounts that another server can continue, with their descriptors, which stay open here."""
        return [
            MountInTransfer(served.version, served.mount, served.ready)
            for served in self._served.values()
            if served.mount is not None and served.mount.can_resend
        ]

    async def leave(self) -> None:
        """End the servers, and leave the mounts to another keeper. Mounts that it cannot answer are unmounted."""
        for served in list(self._served.values()):
            if served.mount is None or not served.mount.can_resend:
                with suppress(MountError):
                    await self.release(served.version.uid, served.version.digest)
        await self.stop_all()

    async def take_over(self, mounts: Iterable[MountInTransfer]) -> None:
        """Answer mounts of the predecessor. Return when all mounts with a ready server are answered. Raises ServeError.

        Versions in the other pod's memory are missing here: their mounts end, and the agent creates new ones.
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
        """End the servers and close the descriptors without touching the mounts, which another keeper holds."""
        await self.stop_all()
        for served in self._served.values():
            if served.mount is not None:
                os.close(served.mount.fd)
        self._served.clear()

    def rows(self) -> list[dict[str, object]]:
        """Return the answer to `list`: one row per mount."""
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
    if os.access(row.version.manifest, os.F_OK):  # False also on a failing disk, where Path.exists raises
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


def close_mounts(mounts: Iterable[MountInTransfer]) -> None:
    """Unmount mounts without a server."""
    for row in mounts:
        with suppress(MountError):  # already unmounted, as wanted
            close_mount(row.mount)
