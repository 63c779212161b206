"""The process that answers FUSE for one dataset version, on a connection that the keeper holds and that outlives it."""

import argparse
import errno
import logging
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyfuse3
import trio

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fuse.access_log import AccessLog
from stoker_sidecar.fuse.dataset_fs import DatasetFs
from stoker_sidecar.fuse.fetch_client import FetchClient
from stoker_sidecar.fuse.following_manifest import FollowingManifest, locate_manifest
from stoker_sidecar.fuse.operations import FuseOperations
from stoker_sidecar.fuse.readiness import take_ready_requests
from stoker_sidecar.fuse.repair_follower import RepairFollower
from stoker_sidecar.linux import fuse_protocol
from stoker_sidecar.linux.confinement import Confinement
from stoker_sidecar.linux.landlock import TcpAccess
from stoker_sidecar.wire.fetcher_protocol import Follow
from stoker_sidecar.wire.heartbeat import HEARTBEAT_SECONDS, Heartbeat

_log = logging.getLogger("stoker.fs")


@dataclass(frozen=True)
class FuseServerSettings:
    """What the keeper tells a FUSE server on its command line: see ``--help``."""

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
    """A FUSE connection that is initialised already, and that libfuse joins.

    libfuse insists on an INIT, so it gets one end of a socket pair as its device and reads a made-up INIT there; in the
    middle of answering it, the real device takes the socket's place under the same descriptor number.
    """

    def __init__(self, settings: FuseServerSettings, heartbeat: Heartbeat) -> None:
        self._settings = settings
        self._heartbeat = heartbeat
        self._libfuse_end, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.send(fuse_protocol.init_request())
        self._ours = ours  # open until the switch: a closed peer would be read as the end of the mount

    @property
    def device(self) -> str:
        """What libfuse is given as its mount point."""
        return f"/dev/fd/{self._libfuse_end.fileno()}"

    def switch(self) -> None:
        """Put the real device in place; from here on libfuse answers the kernel, first what a dead server had taken."""
        device = self._libfuse_end.fileno()
        os.dup2(self._settings.fd, device, inheritable=False)
        if self._settings.resend:
            os.write(device, fuse_protocol.resend())
        self._libfuse_end.detach()  # libfuse closes it
        self._ours.close()
        self._heartbeat.send()


def _withdrawn(group: "BaseExceptionGroup[BaseException]") -> bool:
    """Tell whether all that happened is that the kernel took a request back between poll and read.

    Its caller was killed.
    """
    rest = group.split(lambda error: isinstance(error, OSError) and error.errno == errno.EAGAIN)[1]
    return rest is None


async def _answer(device: int) -> None:
    """Answer until the mount is gone. What pyfuse3 drops at a withdrawn request is asked of the kernel again."""
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
    """Have server and kernel forget what they kept of a repaired file.

    In a thread: the kernel waits for reads of the file that are under way, which this process must answer meanwhile.
    """
    fs.forget(ino)
    try:
        await trio.to_thread.run_sync(pyfuse3.invalidate_inode, ino)
    except OSError as error:
        if error.errno != errno.ENOENT:  # the kernel knows no such inode any more, which is as good
            _log.warning("the kernel may go on serving what it kept of inode %d: %s", ino, error)


def _end_if_outdated(confinement: Confinement) -> None:
    """End this process if it is refused a folder that took the place of one of its own; the next one may open it.

    The kernel asks that one again what this one had not answered.
    """
    if confinement.is_outdated():
        _log.warning("a cache folder was replaced by another: this server ends, for one that may read it")
        os._exit(1)


async def serve(
    settings: FuseServerSettings, confinement: Confinement, operations: type[FuseOperations] = FuseOperations
) -> None:
    """Answer the kernel until the mount is gone. Raises ManifestInvalid, or FsError when there is no manifest."""
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
    """Parse the command line; exits with a sentence on a wrong one."""
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
    """Run the server; return the exit code."""
    settings = parse(sys.argv[1:] if argv is None else argv)
    prefix = f"{settings.uid}/{settings.digest[:12]}"
    logging.basicConfig(
        level=settings.log_level.upper(), format=f"%(asctime)s %(levelname)s %(name)s {prefix}: %(message)s"
    )
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
