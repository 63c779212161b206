"""Reads the answers of an HTTP/1.1 server, one after the other, by llhttp. No input or output."""

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

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
