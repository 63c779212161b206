"""The predecessor's side of a takeover: listens for other keepers while it serves, and hands its mounts over to one."""

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from stoker_sidecar.errors import TakeoverFailed
from stoker_sidecar.keeper.fuse_servers import MountInTransfer
from stoker_sidecar.keeper.takeover import messages
from stoker_sidecar.keeper.takeover.leader_lock import LeaderLock
from stoker_sidecar.keeper.takeover.messages import receive_within
from stoker_sidecar.linux import packets

_log = logging.getLogger("stoker.keeper")
# The successor starts the servers within 20 s or gives up.
_SERVING = 30.0


@dataclass(frozen=True)
class Successor:
    """A keeper that requests the mounts."""

    connection: socket.socket
    protocol: int


class TakeoverListener:
    """Accepts requests for the mounts from other pods' keepers, while this keeper holds the leader lock.

    ``successor`` resolves when a keeper with precedence connects.
    """

    def __init__(self, lock: LeaderLock) -> None:
        self.successor: asyncio.Future[Successor] = asyncio.get_running_loop().create_future()
        self._lock = lock
        self._waiting: list[Successor] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener = lock.listen()
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener, self._connected)

    def _connected(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone again
            return
        task = asyncio.create_task(self._admit(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _admit(self, connection: socket.socket) -> None:
        connection.settimeout(messages.ANSWER_SECONDS)  # for sending: a packet finds room, or the other keeper hangs
        try:
            packet, _ = await receive_within(connection, messages.ANSWER_SECONDS)
            hello = messages.parse_hello(packet)
            goes_first = self._lock.gives_way_to(hello.identity) and not self.successor.done()
            packets.send(connection, messages.word(messages.COMING if goes_first else messages.WAIT))
        except (OSError, EOFError, ValueError, TakeoverFailed) as error:
            _log.warning("a keeper that asked was sent away: %s", error)
            connection.close()
            return
        asking = Successor(connection, hello.protocol)
        if goes_first:
            self.successor.set_result(asking)
        else:
            self._waiting.append(asking)

    def next_waiting(self) -> Successor | None:
        """Select one of the older keepers, which wait for the end of this one, and announce the mounts to it."""
        while self._waiting:
            successor = self._waiting.pop()
            try:
                packets.send(successor.connection, messages.word(messages.COMING))
            except OSError:
                successor.connection.close()
            else:
                return successor
        return None

    def close(self) -> None:
        """Stop listening. Waiting keepers must connect to the next lock holder."""
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        for successor in self._waiting:
            successor.connection.close()


def send_offer(connection: socket.socket, mounts: Sequence[MountInTransfer], memory: int) -> None:
    """Send the mounts and the fetcher's state, each with a copy of its descriptor. Raises OSError."""
    packets.send(connection, messages.offer(messages.Offer(len(mounts))), [memory])
    for row in mounts:
        packets.send(connection, messages.mount(_row_of(row)), [row.mount.fd])


async def send_handoff(successor: socket.socket, mounts: Sequence[MountInTransfer], memory: int) -> bool:
    """Send the mounts and the fetcher's state. Return True if the successor serves them.

    On False, the mounts stay with this keeper.
    """
    try:
        send_offer(successor, mounts, memory)
        reply, _ = await receive_within(successor, _SERVING)
    except (OSError, EOFError, ValueError) as error:
        _log.error("the successor did not take this node's mounts over: %s", error or "it was too slow")
        _tell(successor, messages.MINE)
        return False
    if messages.kind_of(reply) == messages.SERVING:
        return True
    _log.error("the successor answered %r to the offer of this node's mounts, which stay here", reply)
    _tell(successor, messages.MINE)
    return False


def complete_handoff(successor: socket.socket, mounts: Sequence[MountInTransfer], lock: LeaderLock) -> None:
    """Close the predecessor's copies last, and send the lock with the confirmation, so that it is never free."""
    for row in mounts:
        os.close(row.mount.fd)
    _tell(successor, messages.YOURS, lock.fd)
    lock.release()


def _tell(connection: socket.socket, kind: str, *fds: int) -> None:
    try:
        packets.send(connection, messages.word(kind), fds)
    except OSError as error:
        _log.debug("the other keeper is gone: %s", error)
    connection.close()


def _row_of(row: MountInTransfer) -> messages.MountRow:
    version = row.version
    paths = str(version.manifest), str(version.version_dir), str(version.mountpoint)
    return messages.MountRow(version.uid, version.digest, *paths, ready=row.ready)
