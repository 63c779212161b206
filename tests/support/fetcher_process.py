"""The fetcher as a separate process, and a client of its socket."""

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_sidecar.wire.fetcher_protocol import MAX_LINE, Progress, Reply, Request, Watch, decode_reply, encode_request
from tests.support.waiting import SECONDS_OF_PROCESSES, eventually, eventually_async

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class FetcherProcess:
    """A running fetcher: ``ask`` for one reply. ``progress`` is the latest report."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    progress: Progress = field(default_factory=lambda: Progress(()))
    _ids: "itertools.count[int]" = field(default_factory=itertools.count)
    _waiting: dict[int, "asyncio.Future[Reply]"] = field(default_factory=dict)

    async def ask(self, request: Request) -> Reply:
        """Send a request and return the reply."""
        number = next(self._ids)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        self.writer.write(encode_request(number, request))
        return await reply

    async def reach(self, condition: Callable[[NodeDatasetStatus], bool], seconds: float = 60.0) -> NodeDatasetStatus:
        """Return the status of the only dataset when the condition holds."""
        await eventually(lambda: bool(self.progress.datasets) and condition(self.status), seconds)
        return self.status

    @property
    def status(self) -> NodeDatasetStatus:
        """Of the only dataset."""
        return NodeDatasetStatus.model_validate(self.progress.datasets[0])

    async def kill(self) -> None:
        """Kill the process, as the kernel does when memory runs out."""
        self.process.kill()
        await self.process.wait()

    async def listen(self) -> None:
        """Process the fetcher's reports until it ends."""
        self.writer.write(encode_request(-1, Watch()))
        while line := await self.reader.readline():
            number, reply = decode_reply(line)
            if isinstance(reply, Progress):
                self.progress = reply
            else:
                self._waiting.pop(number).set_result(reply)


@asynccontextmanager
async def fetcher_process(
    root: Path, *options: str, memory: int | None = None, start_seconds: float = SECONDS_OF_PROCESSES
) -> AsyncIterator[FetcherProcess]:
    """Start one on the cache folder ``root``, with more command line ``options``.

    Unless killed, SIGTERM ends it with exit code 0.

    ``memory`` is the descriptor of the memory that one fetcher passes to the next.
    """
    socket = root.parent / "fetcher.sock"
    socket.unlink(missing_ok=True)
    words = ["-m", "stoker_sidecar.fetcher.main", "--socket", str(socket), "--root", str(root), "--floor-bytes", "0"]
    fds = () if memory is None else (memory,)
    words += [f"--memory-fd={fd}" for fd in fds]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, *options, env=os.environ | {"PYTHONWARNINGS": "default"}, pass_fds=fds
    )
    reader, writer = await eventually_async(lambda: _connected(socket), start_seconds)
    fetcher = FetcherProcess(process, reader, writer)
    listening = asyncio.create_task(fetcher.listen())
    try:
        yield fetcher
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()
        writer.close()
        await asyncio.wait([listening])


async def _connected(socket: Path) -> Connection | None:
    """Connect. None if the fetcher does not listen, because its socket exists a moment earlier."""
    try:
        return await asyncio.open_unix_connection(socket, limit=MAX_LINE)
    except (FileNotFoundError, ConnectionRefusedError):
        return None
