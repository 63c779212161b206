"""A proxy for an S3 server with faults on demand: errors, resets, hangs, slow, truncated and changed bodies.

It supports only GETs and HEADs, one after the other per connection. Tests write their data directly to the server.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from urllib.parse import urlsplit

_HEAD_END = b"\r\n\r\n"
_DRIP_BYTES = 16
# With this option, closing a socket sends RST instead of FIN.
_LINGER_NONE = struct.pack("ii", 1, 0)


class End(Enum):
    """The action after the sent bytes."""

    KEEP = "the next request"
    CLOSE = "an orderly end of the connection"
    RESET = "a reset of the connection"
    HANG = "nothing more"


@dataclass(frozen=True)
class Answer:
    """A response of the server.

    Header names are in lower case. Content-Length follows from the body unless it is among them.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    def wire(self) -> tuple[bytes, bytes]:
        """Return head and body in wire format."""
        headers = {"content-length": str(len(self.body))} | self.headers
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 {self.status} -\r\n{lines}\r\n".encode(), self.body


@dataclass(frozen=True)
class Fault:
    """The proxy's change of a response.

    ``instead`` is sent without a request to the server. ``change`` changes the server's answer. ``raw`` is sent
    verbatim instead of any answer. ``share`` of the body is sent before ``end``. ``pause`` is the seconds between
    pieces of 16 bytes of the body.
    """

    instead: Answer | None = None
    change: Callable[[Answer], Answer] = lambda answer: answer
    raw: bytes | None = None
    share: float = 1.0
    end: End = End.KEEP
    pause: float = 0.0


def refusal(status: int, code: str = "", **headers: str) -> Fault:
    """Make an error response as S3 sends it. Header names have '_' for '-'."""
    text = f"<Error><Code>{code}</Code><Message>injected</Message></Error>" if code else "<html>injected</html>"
    return Fault(Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, text.encode()))


def header(name: str, value: str) -> Fault:
    """Make an answer that is right except for one header."""
    return Fault(change=lambda answer: replace(answer, headers=answer.headers | {name: value}))


def _flip(answer: Answer) -> Answer:
    return replace(answer, body=bytes(byte ^ 1 for byte in answer.body[:1]) + answer.body[1:])


def _whole(answer: Answer) -> Answer:
    headers = {name: value for name, value in answer.headers.items() if name != "content-range"}
    return Answer(200, headers, b"other bytes" + answer.body)


HANG = Fault(raw=b"", end=End.HANG)
RESET = Fault(raw=b"", end=End.RESET)
CLOSE = Fault(raw=b"", end=End.CLOSE)
# The head, and half the body that it promises.
CUT = Fault(share=0.5, end=End.CLOSE)
RESET_IN_BODY = Fault(share=0.5, end=End.RESET)
STALLED = Fault(share=0.5, end=End.HANG)
GARBAGE = Fault(raw=b"\x16\x03\x01 this is no HTTP\r\n\r\n", end=End.CLOSE)
FLIPPED = Fault(change=_flip)
RANGE_IGNORED = Fault(change=_whole)
# Content-Length matches the shorter body
SHORTENED = Fault(change=lambda answer: replace(answer, body=answer.body[:-1]))
OTHER_RANGE = header("content-range", "bytes 1-1/2")
OTHER_ETAG = header("etag", '"00000000000000000000000000000000"')


@dataclass
class FaultProxy:
    """The proxy.

    ``fault`` decides by the request's path and query. With None, the answer passes unchanged. ``asked`` has all paths.
    """

    upstream: tuple[str, int]
    fault: Callable[[str], Fault | None] = lambda path: None
    endpoint: str = ""
    asked: list[str] = field(default_factory=list)
    _tasks: set["asyncio.Task[None] | None"] = field(default_factory=set)

    def inject(self, fault: Fault, times: int | None = None, only: str = "") -> None:
        """Apply the fault to GETs of objects whose path contains ``only``. ``times`` limits it to the next requests."""
        left = times

        def decide(path: str) -> Fault | None:
            nonlocal left
            if "list-type=2" in path or only not in path or left == 0:
                return None
            left = left - 1 if left is not None else None
            return fault

        self.fault = decide

    def heal(self) -> None:
        """Stop the faults. Hanging connections stay as they are."""
        self.fault = lambda path: None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a client."""
        self._tasks.add(asyncio.current_task())
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):  # closed by ``close``
                while await self._answer(await reader.readuntil(_HEAD_END), writer):
                    pass
        finally:
            self._tasks.discard(asyncio.current_task())
            writer.close()

    def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            if task is not None:
                task.cancel()

    async def _answer(self, request: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer a request. Return True if the connection accepts another one."""
        path = request.split(b" ", 2)[1].decode()
        self.asked.append(path)
        fault = self.fault(path) or Fault()
        if fault.raw is not None:
            writer.write(fault.raw)
        else:
            head, body = fault.change(fault.instead or await self._ask(request)).wire()
            writer.write(head)
            await _send(writer, body[: int(len(body) * fault.share)], fault.pause)
        return await _finish(writer, fault.end)

    async def _ask(self, request: bytes) -> Answer:
        reader, writer = await asyncio.open_connection(*self.upstream)
        try:
            writer.write(request.removesuffix(b"\r\n") + b"Connection: close\r\n\r\n")
            head, _, body = (await reader.read()).partition(_HEAD_END)
        finally:
            writer.close()
        status, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        # A HEAD's Content-Length is that of a GET's body.
        follows = ("connection",) if request.startswith(b"HEAD ") else ("connection", "content-length")
        headers = {name.lower(): value for name, value in pairs if name.lower() not in follows}
        return Answer(int(status.split()[1]), headers, body)


async def _send(writer: asyncio.StreamWriter, body: bytes, pause: float) -> None:
    step = _DRIP_BYTES if pause else max(1, len(body))
    for start in range(0, len(body), step):
        writer.write(body[start : start + step])
        await writer.drain()
        await _wait(pause)


async def _finish(writer: asyncio.StreamWriter, end: End) -> bool:
    await writer.drain()
    if end is End.HANG:
        await asyncio.get_running_loop().create_future()
    if end is End.RESET:
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
        writer.transport.abort()
    return end is End.KEEP


async def _wait(seconds: float) -> None:
    """Be slow: this delay is the fault itself, not a wait for a condition."""
    if seconds:
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        loop.call_later(seconds, turn.set_result, None)
        await turn


@asynccontextmanager
async def fault_proxy(endpoint: str) -> AsyncIterator[FaultProxy]:
    """Run a proxy for the server at ``endpoint`` on this event loop."""
    parts = urlsplit(endpoint)
    assert parts.hostname is not None
    assert parts.port is not None
    proxy = FaultProxy((parts.hostname, parts.port))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=2**20)
    try:
        proxy.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield proxy
    finally:
        server.close()
        proxy.close()
