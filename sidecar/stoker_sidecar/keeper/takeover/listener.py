"""Where the keepers of other pods ask for their turn, while this one serves the node."""

import asyncio
import logging
import socket
from dataclasses import dataclass

from stoker_sidecar.errors import HandoverFailed
from stoker_sidecar.keeper.takeover import messages as wire
from stoker_sidecar.keeper.takeover.handoff import ANSWER
from stoker_sidecar.keeper.takeover.leader_lock import Succession
from stoker_sidecar.linux import packets

_log = logging.getLogger("stoker.keeper")


@dataclass(frozen=True)
class Successor:
    """A keeper that asked for the mounts."""

    connection: socket.socket
    protocol: int


class Door:
    """Where other keepers ask, while this one holds the lock. ``younger`` resolves when one comes that goes first."""

    def __init__(self, succession: Succession) -> None:
        self.younger: asyncio.Future[Successor] = asyncio.get_running_loop().create_future()
        self._succession = succession
        self._waiting: list[Successor] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener = succession.listen()
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener, self._knock)

    def _knock(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone again
            return
        task = asyncio.create_task(self._admit(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _admit(self, connection: socket.socket) -> None:
        connection.settimeout(ANSWER)  # of sending: a packet finds room, or the other one hangs
        try:
            packet, _ = await packets.receive_within(connection, ANSWER)
            hello = wire.parse_hello(packet)
            goes_first = self._succession.is_before(hello.identity) and not self.younger.done()
            packets.send(connection, wire.word(wire.COMING if goes_first else wire.WAIT))
        except (OSError, EOFError, ValueError, HandoverFailed) as error:
            _log.warning("a keeper that asked was sent away: %s", error)
            connection.close()
            return
        successor = Successor(connection, hello.protocol)
        if goes_first:
            self.younger.set_result(successor)
        else:
            self._waiting.append(successor)

    def heir(self) -> Successor | None:
        """An elder keeper that waits for the end of this one, told that it comes."""
        while self._waiting:
            successor = self._waiting.pop()
            try:
                packets.send(successor.connection, wire.word(wire.COMING))
            except OSError:
                successor.connection.close()
            else:
                return successor
        return None

    def close(self) -> None:
        """Others are sent to the next holder."""
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        for successor in self._waiting:
            successor.connection.close()
