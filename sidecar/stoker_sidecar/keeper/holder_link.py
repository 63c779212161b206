"""The keeper's side of the holder: sends it the node's mounts after each change, and takes them back at a start."""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from stoker_sidecar.errors import TakeoverFailed
from stoker_sidecar.keeper.fuse_servers import MountInTransfer, close_mounts
from stoker_sidecar.keeper.takeover import messages
from stoker_sidecar.keeper.takeover.predecessor import send_offer
from stoker_sidecar.keeper.takeover.successor import Handoff, receive_offer
from stoker_sidecar.linux import packets
from stoker_sidecar.linux.mounts import mountinfo
from stoker_sidecar.linux.mounts.fuse_device import FS_TYPE

_log = logging.getLogger("stoker.keeper")
_AGAIN = 1.0  # seconds between attempts to connect to the holder
_SECONDS = 5.0  # for a packet


class HolderLink:
    """Offers ``mounts()`` and the fetcher's ``memory`` to the holder at ``path``, at each change and new connection."""

    def __init__(self, path: Path, mounts: Callable[[], Sequence[MountInTransfer]], memory: int) -> None:
        self._path = path
        self._mounts = mounts
        self._memory = memory
        self._connection: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def begin(self) -> None:
        """Start offering, until ``close``."""
        self._task = asyncio.create_task(self._run(), name="holder link")

    def changed(self) -> None:
        """Offer again, because the mounts have changed."""
        self._news.set()

    def offer(self) -> bool:
        """Offer the mounts now. Return False if there is no holder, which is no error."""
        try:
            if self._connection is None:
                self._connection = _connected(self._path)
                # The holder sends nothing unasked, so input means its end: the next offer fails, and a later one
                # connects.
                asyncio.get_running_loop().add_reader(self._connection, self._news.set)
            send_offer(self._connection, self._mounts(), self._memory)
        except OSError as error:
            _log.debug("the holder does not answer: %s", error)
            self._disconnect()
            return False
        return True

    def close(self) -> None:
        """Stop offering. Idempotent. The holder then waits for another keeper."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._disconnect()

    async def _run(self) -> None:
        while True:
            self._news.clear()
            if self.offer():
                await self._news.wait()
            else:
                await asyncio.sleep(_AGAIN)

    def _disconnect(self) -> None:
        if self._connection is not None:
            asyncio.get_running_loop().remove_reader(self._connection)
            self._connection.close()
            self._connection = None


async def take_back(path: Path, identity: str) -> Handoff:
    """Return the mounts of a keeper that ended without a successor; nothing without a holder."""
    try:
        with _connected(path) as connection:
            packets.send(connection, messages.hello(messages.Hello(identity)))
            protocol, mounts, memory = await receive_offer(connection, _SECONDS)
    except (OSError, EOFError, ValueError, TakeoverFailed) as error:
        _log.info("nothing is taken from the holder: %s", error)
        return Handoff()
    if protocol == messages.PROTOCOL:
        found = [row for row in mounts if _is_mounted(row)]
        packets.close_all([row.mount.fd for row in mounts if row not in found])
        _log.info("took %d mounts from the holder", len(found))
        return Handoff(found, memory=memory)
    _log.warning(
        "the holder has mounts of protocol %d, not %d: they are unmounted and mounted again",
        protocol,
        messages.PROTOCOL,
    )
    close_mounts(mounts)
    packets.close_all([] if memory is None else [memory])
    return Handoff()


def _is_mounted(row: MountInTransfer) -> bool:
    """Return True if the mount point still has a FUSE mount, without touching it: no server would answer."""
    layers = mountinfo.read_layers(str(row.mount.mountpoint))
    return any(layer.fs_type == FS_TYPE for layer in layers)


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(_SECONDS)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection
