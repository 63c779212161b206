"""Hands the FUSE mounts of a node from one keeper to the next: either of the two holds every descriptor at any time."""

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.errors import HandoverFailed
from stoker_sidecar.keeper.fuse_servers import ServedMount, Version
from stoker_sidecar.keeper.takeover import messages as wire
from stoker_sidecar.keeper.takeover.leader_lock import Succession
from stoker_sidecar.linux import packets
from stoker_sidecar.linux.fuse_device import FuseMount

_log = logging.getLogger("stoker.keeper")
# The other keeper answers from its event loop; a child that it starts may hold that for half a second.
ANSWER = 10.0
# It stops its agent (12 s), its fetcher (6 s) and its servers before it offers the mounts.
_STOPPING = 30.0
# The younger one starts the servers within 20 s or gives up.
_SERVING = 30.0
_AGAIN = 0.1


@dataclass(frozen=True)
class Inheritance:
    """Mounts of an elder keeper, which still holds them as well: until ``claim``. None of either: a fresh start.

    ``memory``: a descriptor of what its fetcher knew.
    """

    mounts: Sequence[ServedMount] = ()
    elder: socket.socket | None = None
    memory: int | None = None

    async def claim(self, succession: Succession) -> None:
        """All mounts are answered here now: be the node's keeper. Raises HandoverFailed when the elder one goes on itself."""
        if self.elder is None:
            await succession.hold()
            return
        with self.elder:
            try:
                packets.send(self.elder, wire.word(wire.SERVING))
                reply, fds = await packets.receive_within(self.elder, ANSWER)
            except (EOFError, ConnectionError):  # it died, so they are ours
                await succession.hold()
                return
            except (OSError, ValueError) as error:  # TimeoutError is an OSError
                raise HandoverFailed(f"the elder keeper did not let its mounts go: {error}") from error
        if wire.kind_of(reply) != wire.YOURS or len(fds) != 1:
            raise HandoverFailed("the elder keeper waited too long for this one, and goes on serving")
        succession.receive(fds[0])


async def inherit(succession: Succession) -> Inheritance:
    """Return when this keeper's turn has come: nobody else is there, or an elder one has given its mounts, or has ended.

    Raises HandoverFailed when the other keeper lives and does not answer.
    """
    while not succession.try_hold():
        try:
            connection = succession.connect()
        except OSError as error:
            _log.debug("the node's keeper is coming or going: %s", error)
            await asyncio.sleep(_AGAIN)
            continue
        try:
            return await _ask(connection, succession.identity)
        except (EOFError, ConnectionError):
            connection.close()  # it ended, or gave its place to another one: look again
        except (OSError, ValueError, HandoverFailed) as error:  # TimeoutError is an OSError
            connection.close()
            raise HandoverFailed(
                f"the keeper that holds this node's mounts does not hand them over: {error}"
            ) from error
        await asyncio.sleep(_AGAIN)
    return Inheritance()


async def _ask(connection: socket.socket, identity: str) -> Inheritance:
    packets.send(connection, wire.hello(wire.Hello(identity)))
    packet, _ = await packets.receive_within(connection, ANSWER)
    if wire.kind_of(packet) == wire.WAIT:
        _log.info("a younger keeper holds this node's mounts: waiting for its end")
        packet, _ = await packets.receive_within(connection, None)
    packet, memory = await packets.receive_within(connection, _STOPPING)
    mounts: list[ServedMount] = []
    try:
        offer = wire.parse_offer(packet)
        while len(mounts) < offer.mounts:
            mounts.append(_mount_of(*await packets.receive_within(connection, ANSWER)))
    except (OSError, EOFError, ValueError, HandoverFailed):
        packets.close_all([*memory, *(row.mount.fd for row in mounts)])
        raise
    return Inheritance(mounts, connection, next(iter(memory), None))


def _mount_of(packet: packets.Packet, fds: list[int]) -> ServedMount:
    try:
        row = wire.parse_mount(packet)
        (fd,) = fds
    except (HandoverFailed, ValueError):
        packets.close_all(fds)
        raise
    version = Version(row.uid, row.digest, Path(row.manifest), Path(row.version_dir), Path(row.mountpoint))
    return ServedMount(version, FuseMount(fd, version.mountpoint, can_resend=True), row.ready)


async def give(successor: socket.socket, mounts: Sequence[ServedMount], memory: int) -> bool:
    """Offer the mounts, and what the fetcher knew; True when the successor serves them, False when it does not and they stay with this keeper."""
    try:
        packets.send(successor, wire.offer(wire.Offer(len(mounts))), [memory])
        for row in mounts:
            packets.send(successor, wire.mount(_row_of(row)), [row.mount.fd])
        reply, _ = await packets.receive_within(successor, _SERVING)
    except (OSError, EOFError, ValueError) as error:
        _log.error("the younger keeper did not take this node's mounts over: %s", error or "it was too slow")
        _tell(successor, wire.MINE)
        return False
    if wire.kind_of(reply) == wire.SERVING:
        return True
    _log.error("the younger keeper answered %r to the offer of this node's mounts, which stay here", reply)
    _tell(successor, wire.MINE)
    return False


def confirm(successor: socket.socket, mounts: Sequence[ServedMount], succession: Succession) -> None:
    """The last step of the elder: close what it still holds, and say so with the lock, which so is never free."""
    for row in mounts:
        os.close(row.mount.fd)
    _tell(successor, wire.YOURS, succession.lock)
    succession.let_go()


def _tell(connection: socket.socket, kind: str, *fds: int) -> None:
    try:
        packets.send(connection, wire.word(kind), fds)
    except OSError as error:
        _log.debug("the other keeper is gone: %s", error)
    connection.close()


def _row_of(row: ServedMount) -> wire.MountRow:
    version = row.version
    paths = str(version.manifest), str(version.version_dir), str(version.mountpoint)
    return wire.MountRow(version.uid, version.digest, *paths, ready=row.ready)
