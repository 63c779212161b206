"""The successor's side of a takeover: requests the node's mounts, answers them, and gets the leader lock."""

import asyncio
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.errors import TakeoverFailed
from stoker_sidecar.keeper.fuse_servers import MountInTransfer, ServedVersion
from stoker_sidecar.keeper.takeover import messages
from stoker_sidecar.keeper.takeover.leader_lock import LeaderLock
from stoker_sidecar.keeper.takeover.messages import receive_within
from stoker_sidecar.linux import packets
from stoker_sidecar.linux.mounts.fuse_device import InitializedMount

_log = logging.getLogger("stoker.keeper")
# The predecessor stops its agent (12 s), its fetcher (6 s) and its servers before it offers the mounts.
_STOPPING = 30.0
_AGAIN = 0.1


@dataclass(frozen=True)
class Handoff:
    """A keeper's starting state: mounts of its predecessor, which also holds them until ``complete``.

    ``predecessor`` is the connection to it, None for a fresh start. ``memory`` is the descriptor of its fetcher's
    state.
    """

    mounts: Sequence[MountInTransfer] = ()
    predecessor: socket.socket | None = None
    memory: int | None = None

    async def complete(self, lock: LeaderLock) -> None:
        """Become the node's keeper, after all mounts are answered here.

        Raises TakeoverFailed if the predecessor continues.
        """
        if self.predecessor is None:
            await lock.acquire()
            return
        with self.predecessor:
            try:
                packets.send(self.predecessor, messages.word(messages.SERVING))
                reply, fds = await receive_within(self.predecessor, messages.ANSWER_SECONDS)
            except (EOFError, ConnectionError):  # it died, so the mounts are this keeper's
                await lock.acquire()
                return
            except (OSError, ValueError) as error:  # TimeoutError is an OSError
                raise TakeoverFailed(f"the predecessor did not hand its mounts over: {error}") from error
        if messages.kind_of(reply) != messages.YOURS or len(fds) != 1:
            raise TakeoverFailed("the predecessor waited too long for this keeper, and continues to serve")
        lock.receive(fds[0])


async def receive_handoff(lock: LeaderLock) -> Handoff:
    """Wait until this keeper may serve: there is no other one, or a predecessor has ended or sent its mounts.

    Raises TakeoverFailed if the other keeper lives and does not answer.
    """
    while not lock.try_acquire():
        try:
            connection = lock.connect()
        except OSError as error:
            _log.debug("the node's keeper is coming or going: %s", error)
            await asyncio.sleep(_AGAIN)
            continue
        try:
            return await _ask(connection, lock.identity)
        except (EOFError, ConnectionError):
            connection.close()  # it ended, or another keeper replaced it: retry
        except (OSError, ValueError, TakeoverFailed) as error:  # TimeoutError is an OSError
            connection.close()
            raise TakeoverFailed(
                f"the keeper that holds this node's mounts does not hand them over: {error}"
            ) from error
        await asyncio.sleep(_AGAIN)
    return Handoff()


async def _ask(connection: socket.socket, identity: str) -> Handoff:
    packets.send(connection, messages.hello(messages.Hello(identity)))
    packet, _ = await receive_within(connection, messages.ANSWER_SECONDS)
    if messages.kind_of(packet) == messages.WAIT:
        _log.info("a newer keeper holds this node's mounts: waiting for its end")
        packet, _ = await receive_within(connection, None)
    _, mounts, memory = await receive_offer(connection, _STOPPING)
    return Handoff(mounts, connection, memory)


async def receive_offer(connection: socket.socket, seconds: float) -> tuple[int, list[MountInTransfer], int | None]:
    """Receive an offer that starts within ``seconds``: its protocol, its mounts, and the fetcher's state.

    Raises EOFError, OSError, ValueError and TakeoverFailed, and then has closed all received descriptors.
    """
    packet, memory = await receive_within(connection, seconds)
    mounts: list[MountInTransfer] = []
    try:
        offer = messages.parse_offer(packet)
        while len(mounts) < offer.mounts:
            mounts.append(_mount_of(*await receive_within(connection, messages.ANSWER_SECONDS)))
    except (OSError, EOFError, ValueError, TakeoverFailed):
        packets.close_all([*memory, *(row.mount.fd for row in mounts)])
        raise
    return offer.protocol, mounts, next(iter(memory), None)


def _mount_of(packet: packets.Packet, fds: list[int]) -> MountInTransfer:
    try:
        row = messages.parse_mount(packet)
        (fd,) = fds
    except (TakeoverFailed, ValueError):
        packets.close_all(fds)
        raise
    version = ServedVersion(row.uid, row.digest, Path(row.manifest), Path(row.version_dir), Path(row.mountpoint))
    return MountInTransfer(version, InitializedMount(fd, version.mountpoint, can_resend=True), row.ready)
