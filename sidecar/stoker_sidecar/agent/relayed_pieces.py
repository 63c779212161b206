"""Gives other nodes a piece while it still comes from its source, as far as it is here.

Whoever asks for the same piece waits for the same progress: the fetcher is asked about it once. Nobody waits for long: a
piece of which nothing comes for some seconds, or that is not whole in time, is cut short, and who asked has it from
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
                async with self._following(about, span.length) as arriving:
                    return await _stream(request, arriving, _RelayedFile(paths, span, descriptor), pace)
            finally:
                os.close(descriptor)
        finally:
            self._free += 1

    @asynccontextmanager
    async def _following(self, about: Reach, length: int) -> "AsyncIterator[_ArrivingPiece]":
        """Give the piece while inside; who is the last one to leave ends the questions about it."""
        arriving = self._arriving.get(about)
        if arriving is None or arriving.over:
            arriving = self._arriving[about] = _ArrivingPiece(self._ask, about, length)
        arriving.enter()
        try:
            yield arriving
        finally:
            if arriving.leave() and self._arriving.get(about) is arriving:
                del self._arriving[about]


@dataclass(eq=False)
class _ArrivingPiece:
    """A piece on its way here, of ``length`` bytes. ``here``: so many of them; ``over``: no more come."""

    ask: AskReach
    about: Reach
    length: int
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
        try:
            while self.here < self.length:
                reply = await self.ask(replace(self.about, past=self.here))
                if not isinstance(reply, Reached) or reply.here <= self.here:
                    break
                self.here = min(reply.here, self.length)
                self._tell()
        except FetcherUnavailable:
            pass
        finally:
            self.over = True
            self._tell()

    def _tell(self) -> None:
        self._more.set()
        self._more = asyncio.Event()


@dataclass(frozen=True)
class _RelayedFile:
    """The file in the making that a piece comes to, open already."""

    paths: VersionPaths
    span: WantedSpan
    descriptor: int

    async def block(self, sent: int, arriving: _ArrivingPiece) -> bytes:
        """Return what comes behind the bytes that were sent, once there is more; empty: no more comes."""
        here = await arriving.past(sent)
        if here <= sent and await asyncio.to_thread(self._is_whole):
            here = self.span.length
        if here <= sent:
            return b""
        return await read_block(self.descriptor, min(BLOCK, here - sent), self.span.offset + sent)

    def _is_whole(self) -> bool:
        """Tell whether this very file has moved into the tree meanwhile, of which the fetcher knows by no part's name."""
        with suppress(OSError, ValueError):
            whole = open_file_beneath(self.paths.root, self.paths.tree / self.span.path)
            try:
                return os.path.samestat(os.fstat(whole), os.fstat(self.descriptor))
            finally:
                os.close(whole)
        return False


async def _stream(
    request: web.Request, arriving: _ArrivingPiece, file: _RelayedFile, pace: Pace
) -> web.StreamResponse | None:
    sent, length = 0, file.span.length
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream", "Content-Length": str(length)})
    with suppress(TimeoutError):
        async with asyncio.timeout(_MOST):
            while sent < length and (block := await file.block(sent, arriving)):
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
