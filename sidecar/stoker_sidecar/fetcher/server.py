"""Serves the fetcher's unix socket: lines in, lines out, many requests at a time on each connection."""

import asyncio
import errno
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import cast

from stoker_sidecar.errors import InternalError, ProtocolError, SidecarError
from stoker_sidecar.fetcher.handoff_state import HandoffState
from stoker_sidecar.fetcher.node.cache_node import CacheNode
from stoker_sidecar.wire.config.ca_bundles import CaBundles
from stoker_sidecar.wire.fetcher_hints import PageWindow, PrefetchWindow, ReuseHints, Tune
from stoker_sidecar.wire.fetcher_protocol import (
    MAX_LINE,
    Answered,
    Configure,
    Done,
    Failed,
    Follow,
    InventoryQuery,
    Progress,
    Reach,
    Reached,
    Read,
    Remove,
    Repaired,
    Reply,
    Served,
    Shares,
    Watch,
    decode_request,
    encode_reply,
)
from stoker_sidecar.wire.lines import LineBuffer

_log_of_client_connection = logging.getLogger(__name__)


class ClientConnection(asyncio.Protocol):
    """A connection that a client has made. Each request is a task, which ends with the connection.

    ``serve`` answers a request by ``send``; ``opened`` and ``closed`` are called with this connection.
    """

    def __init__(
        self,
        serve: Callable[["ClientConnection", int, Served], Coroutine[None, None, None]],
        opened: Callable[["ClientConnection"], None],
        closed: Callable[["ClientConnection"], None],
    ) -> None:
        self._serve = serve
        self._opened = opened
        self._closed = closed
        self._lines = LineBuffer()
        self._bundles = CaBundles()
        self._requests: set[asyncio.Task[None]] = set()
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def is_closing(self) -> bool:
        """Whether nothing more can be sent."""
        return self._transport.is_closing()

    async def send(self, number: int, reply: Reply) -> None:
        """Answer a request. Wait while the client does not read earlier answers."""
        self._transport.write(encode_reply(number, reply))
        if not self._writable.is_set():
            await self._writable.wait()

    def close(self) -> None:
        """Cancel its requests, and close it when the answers are sent. Idempotent."""
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
                number, sent = decode_request(line)
                request = self._bundles.received(sent)
                if request is not None:
                    self._begin(number, request)
            if self._lines.waiting > MAX_LINE:
                raise ProtocolError(f"a request has more than {MAX_LINE} bytes")
        except ProtocolError as error:
            _log_of_client_connection.warning("a connection is closed: %s", error)
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

    def _begin(self, number: int, request: Served) -> None:
        task = asyncio.create_task(self._serve(self, number, request))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)


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
        """Restore the state of an earlier process, then listen. Replace its socket."""
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
            _log.error("the configuration of the previous fetcher waits for the agent: %s", reply.message)

    async def close(self) -> None:
        """Stop listening, end all connections."""
        if self._server is not None:
            self._server.close()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        for connection in self._connections:
            connection.close()
        await asyncio.sleep(0)  # then they are gone, except clients that have unread answers
        self._path.unlink(missing_ok=True)

    async def _serve(self, connection: ClientConnection, number: int, request: Served) -> None:
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
            return Failed(error.errno, self._named(request, error.message), error.reason)
        except Exception as error:  # noqa: BLE001 -- the boundary of a request: a bug must not leave a reader hanging
            _log.exception("unexpected error in %s", type(request).__name__)
            return Failed(errno.EIO, f"unexpected error: {error!r}", InternalError.reason)

    def _named(self, request: Answered, sentence: str) -> str:
        """Return the sentence of a failed read with its dataset: the FUSE server that logs it knows only a UID."""
        name = self._node.name_of(request.uid) if isinstance(request, Read) else ""
        return f"{name}: {sentence}" if name else sentence

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
            case PrefetchWindow():
                self._node.prefetch(request)
            case ReuseHints():
                self._node.set_reuse_hints(request)
            case PageWindow():
                return self._node.bring(request)
            case InventoryQuery():
                return await self._node.have_more(request)
            case Reach():
                return Reached()
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
