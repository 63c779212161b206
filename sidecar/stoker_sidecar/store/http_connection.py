"""One HTTP/1.1 connection on the event loop, for one exchange after the other, and the reader of what comes on it."""

import asyncio
from collections.abc import AsyncIterator

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

# Bytes of a body that wait in memory before the socket is left alone.
_MOST_HELD = 512 * 1024
# Bytes of a head: S3's are below 2 KiB, and what users add to an object is 2 KiB at most.
_MOST_HEAD = 64 * 1024
# Lower statuses are said before the answer itself.
_FIRST_FINAL = 200


class NotHttp(Exception):  # noqa: N818 -- says what came
    """What came is no answer, or not all of one."""


class AnswerReader:
    """``begin`` before each answer, ``feed`` as bytes come. ``heard``: any came. Headers have lower-case names."""

    def __init__(self) -> None:
        # One for all answers of a connection: it points back here, so one for each answer would be work for the collector.
        self._parser = HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        """Forget the answer before."""
        self.status = 0
        self.headers: dict[str, str] = {}
        self.heard = self.head_done = self.complete = False
        self.reusable = False  # the connection, for another exchange
        self.held_bytes = 0
        self._held: list[bytes] = []
        self._head_bytes = 0

    def feed(self, data: bytes) -> None:
        """Raises NotHttp."""
        if self.complete:
            raise NotHttp("bytes that nobody asked for")
        self.heard = True
        if not self.head_done:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            raise NotHttp(f"the answer is no HTTP: {error}") from error
        if not self.head_done and self._head_bytes > _MOST_HEAD:
            raise NotHttp(f"the answer's head is larger than {_MOST_HEAD} bytes")

    def end(self) -> None:
        """The connection has ended. Raises NotHttp unless the answer is whole; one without a length is, then."""
        if not self.head_done or self.length is not None or "transfer-encoding" in self.headers:
            raise NotHttp("the connection ended before the answer did")
        self.complete = True

    def take(self) -> list[bytes]:
        """What has come of the body since the last call."""
        held, self._held, self.held_bytes = self._held, [], 0
        return held

    @property
    def length(self) -> int | None:
        """Bytes of the body as the server says; None when it does not."""
        text = self.headers.get("content-length")
        return int(text) if text is not None else None

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """Another answer behind the one that was asked for spoils the connection."""
        if self.complete:
            raise NotHttp("two answers to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of any answer."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Of an interim answer too, which is forgotten."""
        status = self._parser.get_status_code()
        if status < _FIRST_FINAL:
            self.headers = {}
        else:
            self.status, self.head_done = status, True

    def on_body(self, data: bytes) -> None:
        """A piece of it."""
        self._held.append(data)
        self.held_bytes += len(data)

    def on_message_complete(self) -> None:
        """Of an interim answer too."""
        if self.head_done:
            self.complete, self.reusable = True, self._parser.should_keep_alive()


class Connection(asyncio.Protocol):
    """``ask``, then ``chunks``; again as long as ``usable``. Both raise OSError (TimeoutError too) and NotHttp; ``close`` it then."""

    def __init__(self) -> None:
        self.answer = AnswerReader()
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False

    async def ask(self, head: bytes, silence: float, seconds: float) -> None:
        """Send a request without a body; returns when the head of the answer has come.

        ``silence``: seconds without a byte after which the exchange fails; ``seconds``: for all of it.
        """
        self.answer.begin()
        self._last = self._loop.time()
        self._silence, self._end = silence, self._last + seconds
        self._timer = self._loop.call_at(min(self._last + silence, self._end), self._look_at_clock)
        self._transport.write(head)
        while not self.answer.head_done:
            await self._moved()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        while True:
            held = self.answer.take()
            self._resume()
            for data in held:
                yield data
            if not held:
                if self.answer.complete:
                    return
                await self._moved()

    @property
    def usable(self) -> bool:
        """For another exchange: it is open, and the last answer came to its end and was taken."""
        return self.answer.reusable and not (self.answer.held_bytes or self._failure or self._transport.is_closing())

    def rest(self) -> None:
        """No exchange for now."""
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        """At once. Idempotent."""
        self.rest()
        self._transport.abort()

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Of asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Of asyncio.Protocol."""
        self._last = self._loop.time()
        try:
            self.answer.feed(data)
        except NotHttp as error:
            self._fail(error)
        if self.answer.held_bytes > _MOST_HELD and not self._paused:
            self._transport.pause_reading()
            self._paused = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Of asyncio.Protocol."""
        if exc is not None:
            self._fail(exc)
        elif not self.answer.complete:
            try:
                self.answer.end()
            except NotHttp as error:
                self._fail(error if self.answer.heard else ConnectionResetError("the server closed the connection"))
        self._wake()

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
            self.close()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _moved(self) -> None:
        """Until something has come, or it has failed."""
        if self._failure is None:
            self._waiter = self._loop.create_future()
            await self._waiter
        if self._failure is not None and not self.answer.complete:
            raise self._failure

    def _resume(self) -> None:
        if self._paused:
            self._transport.resume_reading()
            self._paused, self._last = False, self._loop.time()

    def _look_at_clock(self) -> None:
        if self.answer.complete:
            return  # it waits for whoever takes it
        due = self._end if self._paused else min(self._last + self._silence, self._end)
        if self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._look_at_clock)
            return
        self._fail(TimeoutError("the answer does not come to its end"))
        self._wake()
