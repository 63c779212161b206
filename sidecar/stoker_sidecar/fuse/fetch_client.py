"""Requests missing bytes and notices of repairs from the node's fetcher. A fetcher restart costs time, not errors."""

import errno
import itertools
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import trio

from stoker_sidecar.errors import FsError, ProtocolError
from stoker_sidecar.wire.fetcher_protocol import (
    MAX_LINE,
    Failed,
    Follow,
    Read,
    ReadDone,
    Repaired,
    Reply,
    decode_reply,
    encode_request,
)
from stoker_sidecar.wire.lines import LineBuffer

_log = logging.getLogger("stoker.fs")
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.05  # a new fetcher forks in 0.1 s; a try costs a few microseconds
# A restarted fetcher knows a dataset after the agent sends its orders. Until then it answers EAGAIN.
_AGAIN_PAUSE = 0.1
# The fetcher gives up a request in well under a minute. Beyond this, the fetcher itself is broken.
_DEADLINE = 120.0
_RECEIVE = 64 * 1024  # bytes


@dataclass
class _Pending:
    """An unanswered request, as its encoded line."""

    line: bytes
    done: trio.Event = field(default_factory=trio.Event)
    reply: Reply | None = None


class FetchClient:
    """The FUSE server's connection to the fetcher, for one dataset version: a `Fetch`.

    ``run`` must be running. Requests wait while there is no connection. ``deadline`` is the seconds until a request
    fails.
    """

    def __init__(self, path: Path, uid: str, digest: str, *, deadline: float = _DEADLINE) -> None:
        self._socket = path
        self._uid = uid
        self._digest = digest
        self._deadline = deadline
        self._ids = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._connection: socket.socket | None = None
        self._unsent = bytearray()  # bytes beyond the connection's buffer
        self._full = trio.Event()  # set when there are unsent bytes

    async def fetch(self, ino: int, offset: int, length: int, *, doubt: bool = False) -> ReadDone:
        """Request bytes, as in `Fetch`.

        Raises EIO if the fetcher does not answer within the deadline, or does not know the version by then.
        """
        request = Read(self._uid, self._digest, ino, offset, length, doubt)
        said = "nothing"
        with trio.move_on_after(self._deadline):
            while True:
                reply = await self._ask(request)
                if not (isinstance(reply, Failed) and reply.errno == errno.EAGAIN):
                    return self._judge(reply)
                said = reply.message
                await trio.sleep(_AGAIN_PAUSE)
        cause = f"the node's fetcher at {self._socket} did not bring it within {self._deadline:.0f} s and said: {said}"
        raise FsError(errno.EIO, cause)

    async def _ask(self, request: Read) -> Reply | None:
        number = next(self._ids)
        pending = self._pending[number] = _Pending(encode_request(number, request))
        self._say(pending.line)
        try:
            await pending.done.wait()
        finally:
            del self._pending[number]
        return pending.reply

    @staticmethod
    def _judge(reply: Reply | None) -> ReadDone:
        match reply:
            case ReadDone():
                return reply
            case Failed(code, message):
                raise FsError(code or errno.EIO, message)
            case other:
                raise FsError(errno.EIO, f"the fetcher answered a read with {type(other).__name__}")

    async def run(self) -> None:
        """Connect, and reconnect whenever the connection ends. Resend unanswered requests."""
        pause = _FIRST_PAUSE
        while True:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
                try:
                    connection.connect(str(self._socket))
                except OSError as error:
                    _log.debug("no fetcher at %s yet: %s", self._socket, error.strerror)
                    await trio.sleep(pause)
                    pause = min(_LONGEST_PAUSE, pause * 2)
                    continue
                pause = _FIRST_PAUSE
                try:
                    await self._talk(connection)
                finally:
                    self._connection = None
                    trio.lowlevel.notify_closing(connection)

    async def _talk(self, connection: socket.socket) -> None:
        self._connection, self._full, self._unsent = connection, trio.Event(), bytearray()
        self._say(b"".join(pending.line for pending in self._pending.values()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_rest, connection)
            await self._receive(connection)
            nursery.cancel_scope.cancel()

    def _say(self, lines: bytes) -> None:
        """Send what fits into the connection's buffer, usually everything: a task would cost two turns of the loop.

        The receiver notices a closed connection.
        """
        if self._connection is None:
            return  # sent after the next connect
        sent = 0
        if not self._unsent:
            try:
                sent = self._connection.send(lines)
            except BlockingIOError:
                pass
            except OSError:
                return
        if sent < len(lines):
            self._unsent += lines[sent:]
            self._full.set()

    async def _send_rest(self, connection: socket.socket) -> None:
        while True:
            await self._full.wait()
            while self._unsent:
                await trio.lowlevel.wait_writable(connection)
                try:
                    sent = connection.send(self._unsent)
                except BlockingIOError:
                    continue
                except OSError:
                    return
                del self._unsent[:sent]
            self._full = trio.Event()

    async def _receive(self, connection: socket.socket) -> None:
        """Process answers until the connection ends or sends an invalid line."""
        buffer = LineBuffer()
        while True:
            await trio.lowlevel.wait_readable(connection)
            try:
                data = connection.recv(_RECEIVE)
            except BlockingIOError:
                continue
            except OSError:
                return
            if not data or not all(map(self._answered, buffer.feed(data))):
                return
            if buffer.waiting > MAX_LINE:
                _log.error("the fetcher at %s sent a line of more than %d bytes: reconnecting", self._socket, MAX_LINE)
                return

    def _answered(self, line: bytes) -> bool:
        """Process one answer. Return False for an invalid line."""
        try:
            number, reply = decode_reply(line)
        except ProtocolError as error:
            _log.error("%s: reconnecting", error)
            return False
        pending = self._pending.get(number)  # missing if its reader gave up
        if pending is not None:
            pending.reply = reply
            pending.done.set()
        return True


# Seconds before a reconnect to a missing fetcher, which then resends all notices.
_PAUSE = 1.0


class RepairFollower:
    """Follows the repairs of one version over the fetcher's socket; ``forget`` is called with each file's inode."""

    def __init__(self, socket: Path, follow: Follow, forget: Callable[[int], Awaitable[None]]) -> None:
        self._socket = socket
        self._follow = follow
        self._forget = forget

    async def run(self) -> None:
        """Connect, and reconnect whenever the connection ends."""
        while True:
            with suppress(OSError, trio.BrokenResourceError):
                async with await trio.open_unix_socket(str(self._socket)) as stream:
                    await stream.send_all(encode_request(0, self._follow))
                    await self._listen(stream)
            await trio.sleep(_PAUSE)

    async def _listen(self, stream: trio.SocketStream) -> None:
        buffer = LineBuffer()
        async for data in stream:
            for line in buffer.feed(data):
                try:
                    _, reply = decode_reply(line)
                except ProtocolError as error:
                    _log.error("%s: reconnecting", error)
                    return
                if isinstance(reply, Repaired):
                    await self._forget(reply.ino)
