"""A fetcher for the tests of the agent: it only listens, records its requests, and reports as the test sets."""

import asyncio
import contextlib
from pathlib import Path

from stoker_sidecar.wire.fetcher_protocol import (
    Configure,
    Done,
    Progress,
    Remove,
    Reply,
    Request,
    Watch,
    decode_request,
    encode_reply,
)
from tests.support.waiting import eventually

GIB = 2**30


class FetcherForAgent:
    """The agent's end of the protocol. ``answers`` overrides the reply to Configure or Remove by uid."""

    def __init__(self) -> None:
        self.configured: dict[str, Configure] = {}
        self.removed: list[str] = []
        self.connections = 0
        self.answers: dict[str, Reply] = {}
        self._progress = Progress((), 0, 100 * GIB, 50 * GIB)
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._watchers: dict[asyncio.StreamWriter, int] = {}

    async def start(self, socket: Path) -> None:
        """Listen. Replace the socket file of an earlier one."""
        self._server = await asyncio.start_unix_server(self._connected, path=str(socket))

    async def stop(self) -> None:
        """Stop listening and break every connection, as a killed fetcher does. Return when all are closed."""
        if self._server is not None:
            self._server.close()
        for writer in self._open:
            writer.close()
        await eventually(lambda: not self._open)

    def say(self, progress: Progress) -> None:
        """Send progress to every watcher, now and at later watches."""
        self._progress = progress
        for writer, number in self._watchers.items():
            writer.write(encode_reply(number, progress))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            while line := await reader.readline():
                number, request = decode_request(line)
                writer.write(encode_reply(number, self._answer(number, request, writer)))
        except ConnectionError:
            pass  # the agent was stopped
        finally:
            self._watchers.pop(writer, None)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self._open.discard(writer)

    def _answer(self, number: int, request: Request, writer: asyncio.StreamWriter) -> Reply:
        match request:
            case Watch():
                self._watchers[writer] = number
                return self._progress
            case Configure(dataset):
                self.configured[dataset["uid"]] = request
                return self.answers.get(dataset["uid"], Done())
            case Remove(uid):
                self.removed.append(uid)
                return self.answers.get(uid, Done())
        raise AssertionError(f"the agent asked {request}, which only file systems do")
