"""Counts a FUSE server's opens and reads, and reports them to the agent in batches. Costs a read less than 1 us."""

import logging
import socket
import time
from contextlib import suppress
from pathlib import Path

import trio

from stoker_sidecar.linux import packets
from stoker_sidecar.wire.access_protocol import FUSE, MOST_ROWS, AccessBatch, AccessRow

_log = logging.getLogger("stoker.fs")
# Seconds until the next batch after a read, because a phase change is noticed one batch late; and without reads,
# because each idle server wakes up at this interval.
_SOON, _QUIET = 0.25, 1.0
_KIND = socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK


class AccessLog:
    """The accesses of one version. ``run`` must be running.

    It counts from the start, because a server may read its model once before the agent answers. The agent's answer
    starts or stops counting. After the agent is lost, counting stops until the next agent requests it.
    """

    def __init__(self, uid: str, digest: str) -> None:
        self._hello = {"op": "hello", "from": FUSE, "uid": uid, "digest": digest}
        self.on = True
        self._begin(time.monotonic())
        self._reading = 0
        self._reading_since = 0.0
        self._pause: trio.CancelScope | None = None  # until the next batch

    def opened(self, ino: int, pid: int) -> None:
        """Count an open."""
        if self.on:
            self._opens += 1
            self._hurry()
            if len(self._rows) < MOST_ROWS:
                self._rows.append(AccessRow(time.monotonic(), ino, 0, 0, pid))

    def begin_read(self, ino: int, offset: int, length: int) -> bool:
        """Count the start of a read. Return True if ``end_read`` must be called at its end."""
        if not self.on:
            return False
        now = time.monotonic()
        self._reads += 1
        self._bytes += length
        self._hurry()
        if len(self._rows) < MOST_ROWS:
            self._rows.append(AccessRow(now, ino, offset, length, 0))
        if not self._reading:
            self._reading_since = now
        self._reading += 1
        return True

    def end_read(self) -> None:
        """Count the end of a read. Readers wait while at least one read is open."""
        self._reading -= 1
        if not self._reading:
            self._waited += time.monotonic() - self._reading_since

    def batch(self) -> AccessBatch:
        """Return the counts since the last batch."""
        now = time.monotonic()
        if self._reading:
            self._waited += now - self._reading_since
            self._reading_since = now
        batch = AccessBatch(
            0, self._since, now, 1.0, self._opens, self._reads, self._bytes, self._waited, rows=self._rows
        )
        self._begin(now)
        return batch

    def _begin(self, now: float) -> None:
        self._since = now
        self._opens = self._reads = self._bytes = 0
        self._waited = 0.0
        self._rows: list[AccessRow] = []

    async def run(self, path: Path) -> None:
        """Report to the agent at that socket, and reconnect after it is gone, until cancelled."""
        while True:
            with suppress(OSError, EOFError), socket.socket(socket.AF_UNIX, _KIND) as connection:
                connection.connect(str(path))
                packets.send(connection, self._hello)
                await self._converse(connection)
            self.on = False
            await trio.sleep(_QUIET)

    async def _converse(self, connection: socket.socket) -> None:
        """Send batches while the agent wants them. Raises OSError and EOFError when the agent is gone."""
        while True:
            with trio.move_on_after(_QUIET) as self._pause:
                await trio.lowlevel.wait_readable(connection)
                self._take(packets.receive(connection)[0])
                continue
            if self.on:
                with suppress(BlockingIOError):  # a busy agent: this batch is lost
                    packets.send(connection, self.batch().packet())

    def _hurry(self) -> None:
        """Report the first access since the last batch soon."""
        if self._pause is not None and not self._rows:
            self._pause.deadline = min(self._pause.deadline, trio.current_time() + _SOON)

    def _take(self, packet: packets.Packet) -> None:
        on = packet.get("op") == "count" and packet.get("on") is True
        if on and not self.on:
            now = self._reading_since = time.monotonic()
            self._begin(now)
        self.on = on
