"""Serves the fetcher's unix socket: lines in, lines out, many requests at a time on each connection."""

import asyncio
import errno
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from stoker_sidecar.errors import InternalError, SidecarError
from stoker_sidecar.fetcher.client_connection import ClientConnection
from stoker_sidecar.fetcher.handoff_state import HandoffState
from stoker_sidecar.fetcher.node import CacheNode
from stoker_sidecar.wire.fetcher_protocol import (
    Ahead,
    Answered,
    Configure,
    Done,
    Failed,
    Follow,
    Have,
    Progress,
    Reach,
    Read,
    Remove,
    Repaired,
    Reply,
    Request,
    Returning,
    Shares,
    Tune,
    Upcoming,
    Watch,
)

_log = logging.getLogger(__name__)
_WATCH_PERIOD = 1.0  # seconds between two looks at the progress, unless there is news
_LOOK_PERIOD = 10.0  # seconds between two looks at the cache folders: a small synced write each


class Server:
    """The fetcher's end of its unix socket. ``start``, then ``close``."""

    def __init__(
        self,
        node: CacheNode,
        path: Path,
        handoff: HandoffState,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._node = node
        self._handoff = handoff
        self._path = path
        self._sleep = sleep
        self._server: asyncio.Server | None = None
        self._connections: set[ClientConnection] = set()
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take up what an earlier process was told, then listen; a socket that it left is replaced."""
        for shares in self._handoff.shares:  # before anything is asked of a source
            await self._take_up(shares)
        await asyncio.gather(*map(self._take_up, self._handoff.requests))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.get_running_loop().create_unix_server(
            lambda: ClientConnection(self._serve, self._connections.add, self._connections.discard), self._path
        )
        # Agent and file-system servers run under other users in the same pod; the folder is private to the pod.
        os.chmod(self._path, 0o666)  # noqa: PTH101 -- Path.chmod follows the same call
        self._looking = asyncio.create_task(self._look_after())

    async def _take_up(self, request: Configure | Shares) -> None:
        reply = await self._answer(request)
        if isinstance(reply, Failed):
            _log.error("what an earlier fetcher was told waits for the agent: %s", reply.message)

    async def close(self) -> None:
        """Stop listening, end all connections."""
        if self._server is not None:
            self._server.close()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        for connection in self._connections:
            connection.close()
        await asyncio.sleep(0)  # then they are gone, but for those that have not read what they were sent
        self._path.unlink(missing_ok=True)

    async def _serve(self, connection: ClientConnection, number: int, request: Request) -> None:
        if isinstance(request, Watch):
            await self._watch(connection, number)
        elif isinstance(request, Follow):
            async for ino in self._node.repairs.follow(request.uid, request.digest):
                await connection.send(number, Repaired(ino))
        else:
            await connection.send(number, await self._answer(request))

    async def _answer(self, request: Answered) -> Reply:
        try:
            return await self._do(request)
        except SidecarError as error:
            return Failed(error.errno, error.message, error.reason)
        except Exception as error:  # noqa: BLE001 -- the boundary of a request: a bug must not leave a reader hanging
            _log.exception("unexpected error in %s", type(request).__name__)
            return Failed(errno.EIO, f"unexpected error: {error!r}", InternalError.reason)

    async def _do(self, request: Answered) -> Reply:
        match request:
            case Read():
                return await self._node.read(request)
            case Configure():
                await self._node.configure(request)
                self._handoff.configured(request)
            case Remove(uid):
                await self._node.remove(uid)
                self._handoff.removed(uid)
            case Shares():
                self._node.share(request)
                self._handoff.shared(request)
            case Tune():
                self._node.tune(request)
            case Ahead():
                self._node.foresee(request)
            case Returning():
                self._node.foretell(request)
            case Upcoming():
                return self._node.bring(request)
            case Have():
                return await self._node.have_more(request)
            case Reach():
                return await self._node.reach(request)
        return Done()

    async def _look_after(self) -> None:
        while True:
            await self._sleep(_LOOK_PERIOD)
            try:
                await self._node.look_after()
            except Exception:  # noqa: BLE001 -- the boundary of this loop: it must outlive a bug
                _log.exception("unexpected error while looking after the cache folders")

    async def _watch(self, connection: ClientConnection, number: int) -> None:
        last: Progress | None = None
        while not connection.is_closing:
            progress = self._node.progress()
            if progress != last:
                await connection.send(number, progress)
                last = progress
            await self._until_news()

    async def _until_news(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_WATCH_PERIOD):
                await self._node.news.wait()
        self._node.news.clear()
