"""Gives other nodes a piece while it still comes from its source, as far as it is here.

Whoever asks for the same piece waits for the same progress: the fetcher is asked about it once. Nobody waits for long:
a piece of which nothing comes for some seconds, or that is not whole in time, is cut short, and who asked has it from
elsewhere.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from aiohttp import web
from msgspec.structs import replace

from stoker_sidecar.agent.core.wanted_span import WantedSpan
from stoker_sidecar.agent.file_response import BLOCK, Pace, read_block
from stoker_sidecar.errors import FetcherUnavailable
from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.wire.fetcher_protocol import Reach, Reached, Reply

# Seconds that one answer takes at most: as long as who asks waits for 8 MiB.
_MOST = 14.0
AskReach = Callable[[Reach], Awaitable[Reply]]


class RelayedPieces:
    """Answers with pieces that are on their way here, ``most`` at a time. ``ask``: raises FetcherUnavailable."""

    def __init__(self, ask: AskReach, most: int) -> None:
        self._ask = ask
        self._free = most
        self._arriving: dict[Reach, _ArrivingPiece] = {}

    @property
    def free(self) -> bool:
        """Whether one more may be answered."""
        return self._free > 0

    async def send(
        self, request: web.Request, about: Reach, paths: VersionPaths, span: WantedSpan, pace: Pace
    ) -> web.StreamResponse | None:
        """Send it as it comes; None: it is not on its way, and nothing was sent.

        What ends before it is whole breaks the connection off, which who asked takes for nothing. ``pace``: waited for
        before so many bytes are sent.
        """
        self._free -= 1
        try:
            try:
                descriptor = await asyncio.to_thread(open_file_beneath, paths.root, paths.parts / span.part)
            except OSError:
                return None
            try:
                async with self._following(about) as arriving:
                    return await _stream(request, arriving, descriptor, span, pace)
            finally:
                os.close(descriptor)
        finally:
            self._free += 1

    @asynccontextmanager
    async def _following(self, about: Reach) -> "AsyncIterator[_ArrivingPiece]":
        """Give the piece while inside; who is the last one to leave ends the questions about it."""
        arriving = self._arriving.get(about)
        if arriving is None or arriving.over:
            arriving = self._arriving[about] = _ArrivingPiece(self._ask, about)
        arriving.enter()
        try:
            yield arriving
        finally:
            if arriving.leave() and self._arriving.get(about) is arriving:
                del self._arriving[about]


@dataclass(eq=False)
class _ArrivingPiece:
    """A piece on its way here. ``here``: so many bytes of it; ``over``: no more come.

    One that begins anew is over, too: what was sent of it before may not be right, and who sends is answerable.
    """

    ask: AskReach
    about: Reach
    here: int = 0
    over: bool = False
    _takers: int = 0
    _more: asyncio.Event = field(default_factory=asyncio.Event)
    _following: "asyncio.Task[None] | None" = None

    def enter(self) -> None:
        """Begin to ask about it, with its first taker."""
        self._takers += 1
        if self._following is None:
            self._following = asyncio.create_task(self._follow())

    def leave(self) -> bool:
        """Ask no more, with its last taker; return whether this was it."""
        self._takers -= 1
        if self._takers == 0 and self._following is not None:
            self._following.cancel()
        return self._takers == 0

    async def past(self, known: int) -> int:
        """Return how much is here, once it is more than ``known``; it is not where no more comes."""
        while self.here <= known and not self.over:
            await self._more.wait()
        return self.here

    async def _follow(self) -> None:
        restarts: int | None = None
        try:
            while True:
                reply = await self.ask(replace(self.about, past=self.here))
                if not isinstance(reply, Reached) or reply.here <= self.here or restarts not in (None, reply.restarts):
                    break
                restarts = reply.restarts
                self.here = reply.here
                self._tell()
        except FetcherUnavailable:
            pass
        finally:
            self.over = True
            self._tell()

    def _tell(self) -> None:
        self._more.set()
        self._more = asyncio.Event()


async def _stream(
    request: web.Request, arriving: _ArrivingPiece, descriptor: int, span: WantedSpan, pace: Pace
) -> web.StreamResponse | None:
    """Send what comes to the file of this descriptor; None: nothing came, and nothing was sent."""
    sent, length = 0, span.length
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream", "Content-Length": str(length)})
    with suppress(TimeoutError, ConnectionError):  # it takes too long, or who asked has gone away
        async with asyncio.timeout(_MOST):
            while sent < length and (here := await arriving.past(sent)) > sent:
                block = await read_block(descriptor, min(BLOCK, here - sent, length - sent), span.offset + sent)
                if not block:  # someone emptied the file
                    break
                if not response.prepared:
                    await response.prepare(request)
                await pace(len(block))
                await response.write(block)
                sent += len(block)
    if not response.prepared:
        return None
    if sent < length and request.transport is not None:
        request.transport.abort()
    return response
