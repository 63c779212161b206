"""One client's connection to the fetcher: requests in, replies out. By callbacks, since each cold file passes here."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import cast

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.wire.fetcher_protocol import MAX_LINE, Reply, Request, decode_request, encode_reply
from stoker_sidecar.wire.lines import LineBuffer

_log = logging.getLogger(__name__)


class ClientConnection(asyncio.Protocol):
    """A connection that a client has made. Each request is a task, which ends with the connection.

    ``serve`` answers a request by ``send``; ``opened`` and ``closed`` are called with this connection.
    """

    def __init__(
        self,
        serve: Callable[["ClientConnection", int, Request], Coroutine[None, None, None]],
        opened: Callable[["ClientConnection"], None],
        closed: Callable[["ClientConnection"], None],
    ) -> None:
        self._serve = serve
        self._opened = opened
        self._closed = closed
        self._lines = LineBuffer()
        self._requests: set[asyncio.Task[None]] = set()
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def is_closing(self) -> bool:
        """Whether nothing more can be sent."""
        return self._transport.is_closing()

    async def send(self, number: int, reply: Reply) -> None:
        """Answer a request; waits while the client does not read what it was sent before."""
        self._transport.write(encode_reply(number, reply))
        if not self._writable.is_set():
            await self._writable.wait()

    def close(self) -> None:
        """Leave off what it asked for, and close it when what was sent has gone out. Idempotent."""
        for task in self._requests:
            task.cancel()
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)
        self._opened(self)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        try:
            for line in self._lines.feed(data):
                self._begin(*decode_request(line))
            if self._lines.waiting > MAX_LINE:
                raise ProtocolError(f"a request has more than {MAX_LINE} bytes")
        except ProtocolError as error:
            _log.warning("a connection is closed: %s", error)
            self._transport.abort()

    def pause_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.close()
        self._closed(self)

    def _begin(self, number: int, request: Request) -> None:
        task = asyncio.create_task(self._serve(self, number, request))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
