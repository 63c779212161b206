"""The agent's link to the fetcher.

It sends the whole plan after every restart, then the changes, and receives the fetcher's progress.
"""

import asyncio
import errno
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from stoker_api.backoff import Backoff
from stoker_sidecar.agent.core.commands import Held, commands, kept_meanwhile, tunings, wanted
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.errors import FetcherUnavailable, ProtocolError
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.wire.config.ca_bundles import CaBundles
from stoker_sidecar.wire.fetcher_hints import PageWindow, PrefetchWindow, ReuseHints, Tune
from stoker_sidecar.wire.fetcher_protocol import (
    MAX_LINE,
    MAX_PROGRESS,
    Configure,
    Failed,
    InventoryQuery,
    Progress,
    Read,
    Remove,
    Reply,
    Request,
    Shares,
    Watch,
    decode_reply,
    encode_request,
)

log = logging.getLogger(__name__)
# Requests from other parts of the agent.
Asked = Read | InventoryQuery | PrefetchWindow | ReuseHints | PageWindow
# Seconds after which a refused command (a dataset still in use) is tried again though nothing changed.
TRY_AGAIN_SECONDS = 5.0
# Timeout of a reply. A fetcher that is listing still answers Configure at once; Remove may delete millions of files.
REPLY_SECONDS = 300.0
# Interval of connection attempts for the first 5 s, since a new fetcher listens within a second and readers and mounts
# wait for it. An attempt is one connect(2).
_LOOK_SECONDS = 0.02
_SOON_LOOKS = 250


class FetcherClient:
    """One connection to the fetcher's unix socket: requests with their replies, and the stream of progress.

    After the connection ends, the caller connects again and sends everything again.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._replies: dict[int, asyncio.Future[Reply]] = {}
        self._bundles = CaBundles()

    @classmethod
    @asynccontextmanager
    async def connect(cls, socket: Path) -> AsyncIterator["FetcherClient"]:
        """Connect, and close the connection at the end. Raises FetcherUnavailable if no fetcher listens."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(socket), limit=MAX_PROGRESS)
        except OSError as error:
            raise FetcherUnavailable(f"the fetcher cannot be reached on {socket}: {error}") from error
        client = cls(reader, writer)
        try:
            yield client
        finally:
            client._give_up("the connection was closed")
            writer.close()

    async def request(self, request: Asked | Configure | Remove | Shares | Tune) -> Reply:
        """Send a request and wait for its reply. Raises FetcherUnavailable.

        A request that is too long fails here: otherwise the fetcher would close the connection and fail all requests.
        """
        number = next(self._ids)
        size = len(encode_request(number, request)) if isinstance(request, Configure) else 0
        if size > MAX_LINE:
            return Failed(
                errno.EMSGSIZE, f"it has {size} bytes, and {MAX_LINE} are allowed: shorten its Dataset's spec"
            )
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
        """Request progress and deliver every reply, until the connection ends.

        Raises FetcherUnavailable and ProtocolError.
        """
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
            for part in self._bundles.sent(request):
                self._writer.write(encode_request(number, part))
            await self._writer.drain()
        except OSError as error:
            raise FetcherUnavailable(f"the connection to the fetcher broke: {error}") from error

    def _give_up(self, why: str) -> None:
        for waiting in self._replies.values():
            if not waiting.done():
                waiting.set_exception(FetcherUnavailable(why))


class FetcherLink:
    """Keeps the fetcher up to date with the plan.

    ``held`` returns the versions, by uid, that pods have mounted or are about to mount.
    """

    def __init__(
        self,
        socket: Path,
        plan: NodePlan,
        held: Callable[[], Held],
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        self._socket = socket
        self._plan = plan
        self._held = held
        self._sleep = sleep
        # For attempts after _SOON_LOOKS. The cap is 5 s because people would notice ten seconds of silence.
        self._backoff = Backoff(first=0.2, cap=5.0)
        self._looks = 0  # consecutive failed attempts
        self._has_heard = False
        self._client: FetcherClient | None = None

    async def run(self) -> None:
        """Connect again and again, until cancelled."""
        while True:
            try:
                async with FetcherClient.connect(self._socket) as client:
                    await self._converse(client)
            except* (FetcherUnavailable, ProtocolError) as group:
                is_lost = self._looks == 0 and self._has_heard  # otherwise it is still starting
                if is_lost or self._looks == _SOON_LOOKS:
                    log.warning("%s", _first(group))
            await self._pause()

    async def _pause(self) -> None:
        """Wait until the next connection attempt."""
        self._looks += 1
        await self._sleep(_LOOK_SECONDS if self._looks <= _SOON_LOOKS else self._backoff.next())

    def _heard(self, progress: Progress) -> None:
        self._backoff.reset()  # not earlier, so that pauses grow for a fetcher that closes each connection at once
        self._looks, self._has_heard = 0, True
        self._plan.take_progress(progress)

    async def ask(self, request: Asked) -> Reply:
        """Send a request to the fetcher and return its reply. Raises FetcherUnavailable."""
        if self._client is None:
            raise FetcherUnavailable("the fetcher is being started: ask again")
        return await self._client.request(request)

    async def _converse(self, client: FetcherClient) -> None:
        """Receive progress and send commands until the connection ends.

        This is no TaskGroup: in Python 3.11 a TaskGroup that fails during its cancellation forgets the cancellation.
        """
        talk = _Conversation(client, self._plan, self._held)
        tasks = [asyncio.create_task(part) for part in (client.follow(self._heard), talk.run())]
        self._plan.set_fetcher_connected(True)
        self._client = client
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._client = None
            self._plan.set_fetcher_connected(False)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()


class _Conversation:
    """The commands of one connection.

    Commands for different datasets run concurrently, since a Remove may take minutes.
    """

    def __init__(self, client: FetcherClient, plan: NodePlan, held: Callable[[], Held]) -> None:
        self._client = client
        self._plan = plan
        self._held = held
        self._sent: dict[str, Configure] = {}
        self._tuned: dict[VersionKey, Tune] = {}
        self._shared = Shares()
        self._busy: set[str] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                token = self._plan.changes.token()
                for command in self._due():
                    uid = _uid(command)
                    if uid not in self._busy:
                        self._busy.add(uid)
                        tasks.create_task(self._say(uid, command))
                await self._plan.changes.wait(token, TRY_AGAIN_SECONDS)

    def _due(self) -> list[Configure | Remove | Shares | Tune]:
        if self._plan.generation is None:
            return []
        held = self._held()
        target = wanted(self._plan.datasets, self._plan.credentials, held)
        planned, on_disk = self._plan.planned.keys(), self._plan.on_disk
        due = commands(planned, target, self._sent, on_disk, held, self._plan.kept)
        shares = Shares(tuple(share.wire() for share in self._plan.shares))
        # Shares and tunings go first, so that datasets follow them in their next commands.
        news = [shares] if shares != self._shared else []
        return [*news, *tunings(self._plan.tunings, self._tuned, self._sent), *due]

    async def _say(self, uid: str, command: Configure | Remove | Shares | Tune) -> None:
        if not isinstance(command, Tune | Shares):
            self._plan.take_kept(uid, kept_meanwhile(self._sent.get(uid), command))
        try:
            reply = await self._client.request(command)
        finally:
            self._busy.discard(uid)
        if isinstance(reply, Failed):
            # Tried again after TRY_AGAIN_SECONDS; the fetcher's own progress says what is wrong with a dataset.
            what = f"dataset {uid}" if uid else "origins"
            log.warning("the fetcher refused to %s %s: %s", type(command).__name__.lower(), what, reply.message)
            return
        if isinstance(command, Configure):
            self._sent[uid] = command
            self._plan.take_kept(uid, command.held)
        elif isinstance(command, Shares):
            self._shared = command
        elif isinstance(command, Tune):
            self._tuned[command.uid, command.digest] = command
        else:
            self._sent.pop(uid, None)
            self._tuned = {key: one for key, one in self._tuned.items() if key[0] != uid}
            self._plan.forget(uid)
        self._plan.changes.mark()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first single error of a group; the rest follow from it."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _uid(command: Configure | Remove | Shares | Tune) -> str:
    """Return the uid of a command's dataset; empty for the node."""
    if isinstance(command, Shares):
        return ""
    return str(command.dataset["uid"]) if isinstance(command, Configure) else command.uid
