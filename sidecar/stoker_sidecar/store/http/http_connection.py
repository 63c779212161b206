"""An HTTP/1.1 connection on the event loop for consecutive exchanges, and the parts of its responses."""

import asyncio
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from stoker_sidecar.store.base import SMALL, WriteChunk

# Bytes of a body in memory above which reading from the socket pauses.
_MOST_HELD = 512 * 1024
# Buffer for one read of a socket. A process has one event loop, and each callback empties the buffer before the next,
# so all connections share it.
_RECEIVED = memoryview(bytearray(256 * 1024))
# Most bytes of a head. S3's are below 2 KiB, plus 2 KiB of user metadata at most.
_MOST_HEAD = 64 * 1024
# Lower statuses are interim responses.
_FIRST_FINAL = 200


class HttpProtocolError(Exception):
    """The received bytes are not an HTTP response, or the response is incomplete."""


class ResponseReader:
    """Parses a connection's responses in sequence, with llhttp. It does no I/O.

    Call ``begin`` before each response, and ``feed`` with received bytes. ``heard``: any bytes arrived. Header names
    are in lower case.
    """

    def __init__(self) -> None:
        self._raw_headers: dict[bytes, bytes] = {}
        # A callback of the parser. A Python method for each of a dozen headers took a tenth of a small GET's CPU time.
        self.on_header = self._raw_headers.__setitem__
        self._stale = True
        self.begin()

    def begin(self, *, head_only: bool = False) -> None:
        """Forget the previous response. ``head_only``: the next one answers a HEAD, so it has no body."""
        if self._stale:
            # One parser serves many responses. It refers back to this object, so each new one burdens the garbage
            # collector.
            self._parser = HttpResponseParser(self)
            self._stale = False
        self._head_only = head_only
        self.status = 0
        self.headers: dict[str, str] = {}
        self._raw_headers.clear()
        self.heard = self.head_done = self.complete = False
        self.reusable = False  # True if the connection allows another exchange
        self.held_bytes = 0
        self._held: list[bytes] = []
        self._head_bytes = 0

    def feed(self, data: bytes | memoryview) -> None:
        """Parse received bytes. Raises HttpProtocolError."""
        if self.complete:
            raise HttpProtocolError("unrequested bytes")
        self.heard = True
        if not self.head_done:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            raise HttpProtocolError(f"the answer is no HTTP: {error}") from error
        if not self.head_done and self._head_bytes > _MOST_HEAD:
            raise HttpProtocolError(f"the answer's head is larger than {_MOST_HEAD} bytes")

    def end(self) -> None:
        """Note the end of the connection, which completes a response without a length.

        Raises HttpProtocolError if the response is incomplete.
        """
        if not self.head_done or self.length is not None or "transfer-encoding" in self.headers:
            raise HttpProtocolError("the connection ended before the answer did")
        self.complete = True

    def finish(self) -> None:
        """Complete a response whose body bypasses the parser, or that has none. The next one gets a new parser."""
        self.complete, self.reusable = True, self._parser.should_keep_alive()
        self._stale = True

    def take(self) -> list[bytes]:
        """Return the bytes of the body since the last call."""
        held, self._held, self.held_bytes = self._held, [], 0
        return held

    @property
    def length(self) -> int | None:
        """Length of the body in bytes, as the server states it, or None."""
        text = self.headers.get("content-length")
        return int(text) if text is not None else None

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """Reject a second response to one request: the connection is unusable."""
        if self.complete:
            raise HttpProtocolError("two answers to one request")

    def on_headers_complete(self) -> None:
        """Take the status and the headers. Discard an interim response."""
        status = self._parser.get_status_code()
        if status >= _FIRST_FINAL:
            self.headers = {_lower(name): value.decode("latin-1") for name, value in self._raw_headers.items()}
            self.status, self.head_done = status, True
            if self._head_only:
                self.finish()
        self._raw_headers.clear()

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body. Raises HttpProtocolError for a body after a complete head."""
        if self.complete:
            raise HttpProtocolError("unrequested bytes")
        self._held.append(data)
        self.held_bytes += len(data)

    def on_message_complete(self) -> None:
        """Note the end of the response, unless it was an interim one."""
        if self.head_done and not self.complete:
            self.complete, self.reusable = True, self._parser.should_keep_alive()


@lru_cache(maxsize=256)
def _lower(name: bytes) -> str:
    """Decode a header's name. Cached, since a server sends the same names with each response."""
    return name.decode("latin-1").lower()


class HttpConnection(asyncio.BufferedProtocol):
    """A client's connection: ``ask``, then one of ``chunks``, ``whole`` and ``pour``; again while it is ``usable``.

    All raise OSError (TimeoutError too) and HttpProtocolError; the caller then closes it.
    """

    def __init__(self) -> None:
        self.response = ResponseReader()
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asking = False  # an exchange is running, and the timer checks it
        self._paused = False
        self._body: BodySteps | None = None  # receives, in place of the parser

    async def ask(self, head: bytes, silence: float, seconds: float, *, head_only: bool = False) -> None:
        """Send a request without a body. Return when the head of the response arrived.

        ``silence``: timeout in seconds without any byte; ``seconds``: timeout of the whole exchange. ``head_only``: the
        request is a HEAD.
        """
        self.response.begin(head_only=head_only)
        self._last = self._loop.time()
        self._silence, self._end, self._asking = silence, self._last + seconds, True
        due = self._due()
        if self._timer is None or due < self._timer.when():  # a timer of an earlier exchange is mostly early enough
            self._stop_clock()
            self._timer = self._loop.call_at(due, self._look_at_clock)
        self._transport.write(head)
        while not self.response.head_done:
            await self._moved()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        while True:
            held = self.response.take()
            self._resume()
            for data in held:
                yield data
            if not held:
                if self.response.complete:
                    return
                await self._moved()

    async def whole(self) -> list[bytes]:
        """Return a small body once it is complete."""
        while not self.response.complete:
            await self._moved()
        return self.response.take()

    async def pour(self, length: int, write: WriteChunk) -> None:
        """Pass a body of ``length`` bytes to ``write`` as it arrives, directly from the socket.

        ``write`` runs on the event loop. Its error ends the exchange and is raised here.
        """
        body = BodySteps(length, write)
        for data in self.response.take():
            body.add(data)
        if not self.response.complete:
            self._body = body
            self._resume()
            while not self.response.complete:
                await self._moved()

    @property
    def usable(self) -> bool:
        """Whether it allows another exchange: it is open, and the last response is complete and consumed."""
        return self.response.reusable and not (
            self.response.held_bytes or self._failure or self._transport.is_closing()
        )

    def rest(self) -> None:
        """Stop timing until the next exchange. The timer stays, since the next exchange would need a new one."""
        self._asking = False

    def close(self) -> None:
        """Close it at once; no write follows. Idempotent."""
        self._stop_clock()
        self._body = None
        self._transport.abort()

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol."""
        return _RECEIVED if self._body is None else self._body.space()

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        self._last = self._loop.time()
        try:
            if self._body is None:
                self.response.feed(_RECEIVED[:nbytes])
            else:
                self._body.filled(nbytes)
                if self._body.complete:
                    self._body = None
                    self.response.finish()
        except Exception as error:  # noqa: BLE001 -- a write's own too, which ``pour`` raises
            self._fail(error)
        if self.response.held_bytes > _MOST_HELD and not self._paused:
            self._transport.pause_reading()
            self._paused = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if exc is not None:
            self._fail(exc)
        elif not self.response.complete:
            try:
                self.response.end()
            except HttpProtocolError as error:
                self._fail(error if self.response.heard else ConnectionResetError("the server closed the connection"))
        self._wake()

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
            self.close()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _moved(self) -> None:
        """Wait until bytes arrive. Raises the error of the exchange."""
        if self._failure is None:
            self._waiter = self._loop.create_future()
            await self._waiter
        if self._failure is not None and not self.response.complete:
            raise self._failure

    def _resume(self) -> None:
        if self._paused:
            self._transport.resume_reading()
            self._paused, self._last = False, self._loop.time()

    def _due(self) -> float:
        return self._end if self._paused else min(self._last + self._silence, self._end)

    def _stop_clock(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_at_clock(self) -> None:
        self._timer = None
        if self.response.complete or not self._asking:
            return  # the response waits for its consumer, or the connection is idle
        due = self._due()
        if self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._look_at_clock)
            return
        self._fail(TimeoutError("the answer is incomplete"))
        self._wake()


# Least bytes per step, so that a slow connection does not cost a write for each packet.
_LEAST = 64 * 1024


class BodySteps:
    """A body of ``length`` bytes; ``write`` receives each step.

    The buffer is small, so that a step is still in the core's cache when it is written. A step ends after the first
    SMALL bytes, because a reader may wait for these.
    """

    def __init__(self, length: int, write: WriteChunk) -> None:
        self.received = 0
        self._length = length
        self._write = write
        self._buffer = memoryview(bytearray(min(SMALL, length)))
        self._held = 0

    @property
    def complete(self) -> bool:
        """Whether the whole body was passed on."""
        return self.received == self._length

    def add(self, data: bytes) -> None:
        """Pass on bytes from outside the buffer. Call it only before the first ``space``."""
        self.received += len(data)
        self._write(data)

    def space(self) -> memoryview:
        """Return the buffer for the next bytes of the body; never empty before the end."""
        end = self._length if self.received >= SMALL else min(SMALL, self._length)
        return self._buffer[self._held : self._held + end - self.received]

    def filled(self, count: int) -> None:
        """Note that ``space`` received ``count`` bytes. Raises the errors of ``write``."""
        self._held += count
        self.received += count
        if self._held >= _LEAST or self.received in (SMALL, self._length):
            held, self._held = self._held, 0
            self._write(self._buffer[:held])
