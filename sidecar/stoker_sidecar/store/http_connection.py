"""One HTTP/1.1 connection on the event loop, for one exchange after the other, and the parser of its responses."""

import asyncio
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

# Bytes of a body that wait in memory before the socket is left alone.
_MOST_HELD = 512 * 1024
# Bytes of a head: S3's are below 2 KiB, and what users add to an object is 2 KiB at most.
_MOST_HEAD = 64 * 1024
# Lower statuses are of interim responses.
_FIRST_FINAL = 200


class HttpProtocolError(Exception):
    """What came is no HTTP response, or not all of one."""


class ResponseReader:
    """The parser of a connection's responses, one after the other, by llhttp; it does no input or output.

    ``begin`` comes before each response, ``feed`` as bytes come; ``heard`` tells that any came. Headers have names in
    lower case.
    """

    def __init__(self) -> None:
        self._raw_headers: dict[bytes, bytes] = {}
        # A callback of the parser. A method in Python for each of a dozen headers was a tenth of a small GET's CPU.
        self.on_header = self._raw_headers.__setitem__
        # One for all responses of a connection: it points back here, so one for each would be work for the collector.
        self._parser = HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        """Forget the response before."""
        self.status = 0
        self.headers: dict[str, str] = {}
        self._raw_headers.clear()
        self.heard = self.head_done = self.complete = False
        self.reusable = False  # the connection, for another exchange
        self.held_bytes = 0
        self._held: list[bytes] = []
        self._head_bytes = 0

    def feed(self, data: bytes) -> None:
        """Parse what has come. Raises HttpProtocolError."""
        if self.complete:
            raise HttpProtocolError("bytes that nobody asked for")
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
        """Take note that the connection has ended, which completes a response without a length.

        Raises HttpProtocolError when the response is not whole.
        """
        if not self.head_done or self.length is not None or "transfer-encoding" in self.headers:
            raise HttpProtocolError("the connection ended before the answer did")
        self.complete = True

    def take(self) -> list[bytes]:
        """Return what has come of the body since the last call."""
        held, self._held, self.held_bytes = self._held, [], 0
        return held

    @property
    def length(self) -> int | None:
        """Bytes of the body as the server says; None when it does not."""
        text = self.headers.get("content-length")
        return int(text) if text is not None else None

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """Refuse another response behind the one that was asked for: the connection is spoilt."""
        if self.complete:
            raise HttpProtocolError("two answers to one request")

    def on_headers_complete(self) -> None:
        """Take the status and the headers, and forget an interim response."""
        status = self._parser.get_status_code()
        if status >= _FIRST_FINAL:
            self.headers = {_lower(name): value.decode("latin-1") for name, value in self._raw_headers.items()}
            self.status, self.head_done = status, True
        self._raw_headers.clear()

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body."""
        self._held.append(data)
        self.held_bytes += len(data)

    def on_message_complete(self) -> None:
        """Note the end of the response, unless it was an interim one."""
        if self.head_done:
            self.complete, self.reusable = True, self._parser.should_keep_alive()


@lru_cache(maxsize=256)
def _lower(name: bytes) -> str:
    """Decode a header's name: a server sends the same few with each response."""
    return name.decode("latin-1").lower()


class HttpConnection(asyncio.Protocol):
    """A client's connection: ``ask``, then ``chunks`` or ``whole``, and again as long as it is ``usable``.

    All raise OSError (TimeoutError too) and HttpProtocolError; the caller then closes it.
    """

    def __init__(self) -> None:
        self.response = ResponseReader()
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asking = False  # an exchange is under way, and the clock is looked at
        self._paused = False

    async def ask(self, head: bytes, silence: float, seconds: float) -> None:
        """Send a request without a body; returns when the head of the response has come.

        ``silence``: seconds without a byte after which the exchange fails; ``seconds``: for all of it.
        """
        self.response.begin()
        self._last = self._loop.time()
        self._silence, self._end, self._asking = silence, self._last + seconds, True
        due = self._due()
        if self._timer is None or due < self._timer.when():  # mostly one of an earlier exchange comes soon enough
            self._stop_clock()
            self._timer = self._loop.call_at(due, self._look_at_clock)
        self._transport.write(head)
        while not self.response.head_done:
            await self._moved()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
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
        """Return the body once all of it has come: of one that is known to be small."""
        while not self.response.complete:
            await self._moved()
        return self.response.take()

    @property
    def usable(self) -> bool:
        """Whether it takes another exchange: it is open, and the last response came to its end and was taken."""
        return self.response.reusable and not (
            self.response.held_bytes or self._failure or self._transport.is_closing()
        )

    def rest(self) -> None:
        """Take no time until the next exchange. The timer stays, since the next one would have to make it anew."""
        self._asking = False

    def close(self) -> None:
        """Close it at once. Idempotent."""
        self._stop_clock()
        self._transport.abort()

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._last = self._loop.time()
        try:
            self.response.feed(data)
        except HttpProtocolError as error:
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
        """Wait until something has come. Raises what the exchange failed by."""
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
            return  # it waits to be taken, or for the next exchange
        due = self._due()
        if self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._look_at_clock)
            return
        self._fail(TimeoutError("the answer does not come to its end"))
        self._wake()
