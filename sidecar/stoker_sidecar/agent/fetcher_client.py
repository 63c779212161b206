"""One connection to the fetcher's unix socket: requests with their replies, and the stream of progress."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from stoker_sidecar.errors import FetcherUnavailable
from stoker_sidecar.wire.fetcher_protocol import (
    MAX_LINE,
    Configure,
    Progress,
    Remove,
    Reply,
    Request,
    Watch,
    decode_reply,
    encode_request,
)

# A fetcher that is busy listing answers Configure at once, since it only takes note; Remove deletes a tree of perhaps millions of files.
REPLY_SECONDS = 300.0


class FetcherClient:
    """Ends with its connection; the caller connects anew and says everything again."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._replies: dict[int, asyncio.Future[Reply]] = {}

    @classmethod
    @asynccontextmanager
    async def connect(cls, socket: Path) -> AsyncIterator["FetcherClient"]:
        """Raises FetcherUnavailable when nobody listens."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(socket), limit=MAX_LINE)
        except OSError as error:
            raise FetcherUnavailable(f"the fetcher cannot be reached on {socket}: {error}") from error
        client = cls(reader, writer)
        try:
            yield client
        finally:
            client._give_up("the connection was closed")
            writer.close()

    async def request(self, request: Configure | Remove) -> Reply:
        """Send and wait for the reply. Raises FetcherUnavailable."""
        number = next(self._ids)
        self._replies[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(REPLY_SECONDS):
                await self._send(number, request)
                return await self._replies[number]
        except TimeoutError as error:
            what = f"the fetcher did not answer {type(request).__name__} within {REPLY_SECONDS:.0f} s"
            raise FetcherUnavailable(what) from error
        finally:
            self._replies.pop(number, None)

    async def follow(self, on_progress: Callable[[Progress], None]) -> None:
        """Ask for progress and hand out every reply, until the connection ends. Raises FetcherUnavailable and ProtocolError."""
        await self._send(0, Watch())
        try:
            while line := await self._reader.readline():
                number, reply = decode_reply(line)
                if isinstance(reply, Progress):
                    on_progress(reply)
                elif (waiting := self._replies.get(number)) is not None and not waiting.done():
                    waiting.set_result(reply)
        except (OSError, ValueError) as error:
            raise FetcherUnavailable(f"the connection to the fetcher broke: {error}") from error
        finally:
            self._give_up("the fetcher closed the connection")
        raise FetcherUnavailable("the fetcher closed the connection: it is being started again")

    async def _send(self, number: int, request: Request) -> None:
        try:
            self._writer.write(encode_request(number, request))
            await self._writer.drain()
        except OSError as error:
            raise FetcherUnavailable(f"the connection to the fetcher broke: {error}") from error

    def _give_up(self, why: str) -> None:
        for waiting in self._replies.values():
            if not waiting.done():
                waiting.set_exception(FetcherUnavailable(why))
