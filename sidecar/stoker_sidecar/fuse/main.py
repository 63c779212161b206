"""The process that answers FUSE for one dataset version, on a connection that the keeper holds and that outlives it."""

import argparse
import errno
import logging
import os
import select
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import pyfuse3
import trio

from stoker_api.log_lines import log_to_stderr
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fuse.access_log import AccessLog
from stoker_sidecar.fuse.dataset_fs import DatasetFs
from stoker_sidecar.fuse.fetch_client import FetchClient, RepairFollower
from stoker_sidecar.fuse.following_manifest import FollowingManifest, locate_manifest
from stoker_sidecar.fuse.operations import FuseOperations
from stoker_sidecar.linux.mounts import fuse_protocol
from stoker_sidecar.linux.sandbox.confinement import Confinement
from stoker_sidecar.linux.sandbox.landlock import TcpAccess
from stoker_sidecar.wire.fetcher_protocol import Follow
from stoker_sidecar.wire.heartbeat import HEARTBEAT_SECONDS, Heartbeat
from stoker_sidecar.wire.zygote_orders import run_zygote

_log = logging.getLogger("stoker.fs")
_ZYGOTE = "--zygote"

# Requests in a row before other tasks run, such as fetcher answers and continuing reads.
_IN_A_ROW = 8


def take_ready_requests() -> None:
    """Replace ``trio`` in pyfuse3. Call this before ``pyfuse3.main``."""
    lowlevel = SimpleNamespace(**vars(trio.lowlevel) | {"wait_readable": wait_readable})
    vars(pyfuse3)["trio"] = SimpleNamespace(**vars(trio) | {"lowlevel": lowlevel, "Lock": ReadLock})


class ReadLock:
    """The lock around taking the next request.

    A task that releases it and returns at once gets it again, before waiting tasks. So a task that can answer without
    waiting continues with the next request. If it must wait, another task continues.
    """

    def __init__(self) -> None:
        self._held = False
        self._taken = 0
        self._waiting = trio.lowlevel.ParkingLot()

    async def __aenter__(self) -> None:
        self._taken += 1
        if self._taken % _IN_A_ROW == 0:
            await trio.lowlevel.checkpoint()
        while self._held:
            await self._waiting.park()
        self._held = True

    async def __aexit__(self, *_: object) -> None:
        self._held = False
        self._waiting.unpark()


async def wait_readable(fd: int) -> None:
    """Return when the descriptor is readable: at once, without a turn of the event loop, if it already is."""
    if not _poll(fd).poll(0):
        await trio.lowlevel.wait_readable(fd)


@cache
def _poll(fd: int) -> select.poll:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return poll


@dataclass(frozen=True)
class FuseServerSettings:
    """A FUSE server's command line from the keeper; see ``--help``."""

    fd: int
    heartbeat_fd: int | None
    resend: bool
    manifest: Path
    version_dir: Path
    fetcher_socket: Path
    uid: str
    digest: str
    readable: Sequence[str]
    accesses: Path | None
    log_level: str


class FuseConnection:
    """An initialized FUSE connection for libfuse to join.

    libfuse requires an INIT, so it gets one end of a socket pair as its device and reads a synthetic INIT there. While
    it answers that INIT, the real device replaces the socket under the same descriptor number.
    """

    def __init__(self, settings: FuseServerSettings, heartbeat: Heartbeat) -> None:
        self._settings = settings
        self._heartbeat = heartbeat
        self._libfuse_end, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.send(fuse_protocol.init_request())
        self._ours = ours  # open until the switch: libfuse would read a closed peer as the end of the mount

    @property
    def device(self) -> str:
        """The mount point for libfuse."""
        return f"/dev/fd/{self._libfuse_end.fileno()}"

    def switch(self) -> None:
        """Switch to the real device. From here on libfuse answers the kernel, first the requests of a dead server."""
        device = self._libfuse_end.fileno()
        os.dup2(self._settings.fd, device, inheritable=False)
        if self._settings.resend:
            os.write(device, fuse_protocol.resend())
        self._libfuse_end.detach()  # libfuse closes it
        self._ours.close()
        self._heartbeat.send()


def _withdrawn(group: "BaseExceptionGroup[BaseException]") -> bool:
    """Return True if the only error is that the kernel withdrew a request between poll and read.

    Its caller was killed.
    """
    rest = group.split(lambda error: isinstance(error, OSError) and error.errno == errno.EAGAIN)[1]
    return rest is None


async def _answer(device: int) -> None:
    """Answer until the mount is gone. Requests that pyfuse3 drops after a withdrawn one are requested again."""
    while True:
        try:
            await pyfuse3.main()
        except* OSError as group:
            if not _withdrawn(group):
                raise
            os.write(device, fuse_protocol.resend())
        else:
            return


async def _send_heartbeats(heartbeat: Heartbeat) -> None:
    while True:
        await trio.sleep(HEARTBEAT_SECONDS)
        heartbeat.send()


async def _forget(fs: DatasetFs, ino: int) -> None:
    """Drop the server's and the kernel's cached data of a repaired file.

    It runs in a thread: the kernel waits for open reads of the file, which this process must answer.
    """
    fs.forget(ino)
    try:
        await trio.to_thread.run_sync(pyfuse3.invalidate_inode, ino)
    except OSError as error:
        if error.errno != errno.ENOENT:  # the kernel has no such inode, so there is nothing to drop
            _log.warning("the kernel may keep serving cached data of inode %d: %s", ino, error)


def _end_if_outdated(confinement: Confinement) -> None:
    """Exit if a replaced cache folder is not accessible; the next server may open it.

    The kernel resends unanswered requests to the next server.
    """
    if confinement.is_outdated():
        _log.warning("a cache folder was replaced by another: this server ends, for one that may read it")
        os._exit(1)


async def serve(
    settings: FuseServerSettings, confinement: Confinement, operations: type[FuseOperations] = FuseOperations
) -> None:
    """Answer the kernel until the mount is gone. Raises ManifestInvalid, or FsError without a manifest."""
    heartbeat = Heartbeat(settings.heartbeat_fd)
    refused = partial(_end_if_outdated, confinement)
    locate = partial(locate_manifest, settings.fetcher_socket, settings.uid, settings.digest)
    manifest = FollowingManifest(settings.manifest, locate, refused)
    client = FetchClient(settings.fetcher_socket, settings.uid, settings.digest)
    fs = DatasetFs(manifest, settings.version_dir, client, refused)
    connection = FuseConnection(settings, heartbeat)
    accesses = AccessLog(settings.uid, settings.digest)
    answers = operations(fs, connection.switch, accesses)
    follow = Follow(settings.uid, settings.digest)
    repairs = RepairFollower(settings.fetcher_socket, follow, partial(_forget, fs))
    take_ready_requests()
    pyfuse3.init(answers, connection.device, set())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        nursery.start_soon(_send_heartbeats, heartbeat)
        nursery.start_soon(repairs.run)
        if settings.accesses is not None:
            nursery.start_soon(accesses.run, settings.accesses)
        await _answer(settings.fd)
        nursery.cancel_scope.cancel()
    pyfuse3.close(unmount=False)
    fs.close()


def parse(argv: Sequence[str]) -> FuseServerSettings:
    """Parse the command line. Exit with a sentence on an error."""
    parser = argparse.ArgumentParser(prog="stoker_sidecar.fuse.main", description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="descriptor of the initialised FUSE device")
    parser.add_argument(
        "--heartbeat-fd", type=int, help="the line to the keeper: a first heartbeat when requests are answered"
    )
    parser.add_argument("--resend", action="store_true", help="the kernel (6.9) can hand out unanswered requests again")
    parser.add_argument("--manifest", type=Path, required=True, help="manifest of the version")
    parser.add_argument("--version-dir", type=Path, required=True, help="folder with tree/ and parts/")
    parser.add_argument("--fetcher-socket", type=Path, required=True, help="the fetcher's unix socket")
    parser.add_argument("--uid", required=True, help="uid of the Dataset")
    parser.add_argument("--digest", required=True, help="digest of the version")
    parser.add_argument(
        "--readable",
        action="append",
        default=[],
        help="cache folder; again for more; given one, it is held to reading these, where the kernel has Landlock",
    )
    parser.add_argument("--accesses", type=Path, help="the agent's socket for accesses; none: nothing is counted")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    return FuseServerSettings(**vars(parser.parse_args(argv)))


def main(argv: Sequence[str] | None = None, operations: type[FuseOperations] = FuseOperations) -> int:
    """Run the server, or with ``--zygote`` as the first word the servers' zygote. Return the exit code.

    The zygote has loaded the imports. It forks a server in milliseconds instead of 0.3 s, until the keeper ends.
    """
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == [_ZYGOTE]:
        return run_zygote(main, "stoker-fs", words[1:])
    settings = parse(words)
    log_to_stderr(settings.log_level, settings.uid, settings.digest[:12])
    confinement = Confinement(readable=settings.readable)
    if settings.readable:
        confinement.begin(no_tcp=TcpAccess.BIND | TcpAccess.CONNECT)
    try:
        trio.run(serve, settings, confinement, operations)
    except SidecarError as error:
        _log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
