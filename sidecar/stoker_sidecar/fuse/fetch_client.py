"""Asks the node's fetcher for missing bytes, over its unix socket; a fetcher that restarts costs time, not errors."""

import errno
import itertools
import logging
import socket
from dataclasses import dataclass, field
from pathlib import Path

import trio

from stoker_sidecar.errors import FsError, ProtocolError
from stoker_sidecar.wire.fetcher_protocol import MAX_LINE, Failed, Read, ReadDone, Reply, decode_reply, encode_request
from stoker_sidecar.wire.lines import LineBuffer

_log = logging.getLogger("stoker.fs")
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.05  # a fork of a fetcher takes 0.1 s; a try costs some microseconds
# A restarted fetcher knows a dataset again as soon as the agent has told it; until then it answers EAGAIN.
_AGAIN_PAUSE = 0.1
# The fetcher itself gives a request up in well under a minute; beyond this the fetcher is what does not work.
_DEADLINE = 120.0
_RECEIVE = 64 * 1024  # bytes


@dataclass
class _Pending:
    """A request that was not answered yet, as the line that asks it."""

    line: bytes
    done: trio.Event = field(default_factory=trio.Event)
    reply: Reply | None = None


class FetchClient:
    """The FUSE server's connection to the fetcher, for one dataset version: a `Fetch`.

    ``run`` must be running; requests wait while there is no connection. ``deadline``: seconds until a request fails.
    """

    def __init__(self, path: Path, uid: str, digest: str, *, deadline: float = _DEADLINE) -> None:
        self._socket = path
        self._uid = uid
        self._digest = digest
        self._deadline = deadline
        self._ids = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._connection: socket.socket | None = None
        self._unsent = bytearray()  # that the connection had no room for
        self._full = trio.Event()  # set when there is some

    async def fetch(self, ino: int, offset: int, length: int, *, doubt: bool = False) -> ReadDone:
        """Ask for bytes, as `Fetch` says.

        EIO when the fetcher does not answer within the deadline, or does not know the version until then.
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
        """Connect, and again whenever the connection ends; what was not answered is asked again."""
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
        """Send at once what the connection has room for, as it mostly has: a task for it costs two turns of the loop.

        A connection that has ended is noticed by who receives.
        """
        if self._connection is None:
            return  # it is asked once there is one
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
        """Take answers until the connection ends, or makes no sense any more."""
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
                _log.error(
                    "the fetcher at %s sent a line of more than %d bytes: connecting anew", self._socket, MAX_LINE
                )
                return

    def _answered(self, line: bytes) -> bool:
        """Take one answer; False when the connection makes no sense any more."""
        try:
            number, reply = decode_reply(line)
        except ProtocolError as error:
            _log.error("%s: connecting anew", error)
            return False
        pending = self._pending.get(number)  # gone when its reader gave up
        if pending is not None:
            pending.reply = reply
            pending.done.set()
        return True
