"""A worker process of the fetcher: GET, write, check, rename. Its zygote gives it one end of a socket pair."""

import argparse
import asyncio
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import uvloop

from stoker_api.dataset_source import Source
from stoker_sidecar.errors import InternalError
from stoker_sidecar.linux.libc import end_with_parent, give_back_memory, keep_freed_memory
from stoker_sidecar.store.base import Retry
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.opening import StoreHandle, open_store
from stoker_sidecar.worker.messages import (
    BytesArrived,
    CancelOrder,
    CloseStoreOrder,
    FetchOrder,
    MessageStream,
    OpenStoreOrder,
    PieceDone,
    PieceFailed,
    Ping,
    Pong,
    ToWorker,
    decode_to_worker,
)
from stoker_sidecar.worker.progress import PieceProgress
from stoker_sidecar.worker.transfer import Fetched, Piece, fetch_piece, told_by_its_end

# Threads for work on the disk; those that large bodies come by are the store's own (docs/adr/0018).
_DISK_THREADS = 4
# Bytes: the bodies of small files that come and go. Seconds after the last job, about, in which they are kept.
_KEPT_MEMORY, _REST_SECONDS = 8 * 1024 * 1024, 10.0
# Jobs in hand from which on an answer may wait a moment for the next ones: a few readers that wait have fewer.
_BUSY = 8


class Worker:
    """Does what the fetcher's messages say until the socket ends."""

    def __init__(self, connection: ConnectionSettings) -> None:
        retry = Retry(asyncio.sleep)  # for what a store tries again by itself; pieces are tried again by the fetcher
        self._open_store = partial(open_store, settings=connection, retry=retry)
        self._stores: dict[int, StoreHandle] = {}
        self._jobs: dict[int, asyncio.Task[Fetched]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._resting: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self._progress = PieceProgress()
        self._stream = MessageStream(decode_to_worker, self._received, self._ended.set)

    async def run(self, connection: socket.socket) -> None:
        """Work until the fetcher is gone."""
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self._stream, connection)
        await self._ended.wait()

    def _received(self, message: ToWorker) -> None:
        match message:
            case FetchOrder(job, store, piece):
                task = asyncio.create_task(self._fetch(job, store, piece))
                self._jobs[job] = task
                task.add_done_callback(partial(self._answer, job))
            case CancelOrder(job):
                if job in self._jobs:
                    self._jobs[job].cancel()
            case OpenStoreOrder(number, source, credentials):
                self._stores[number] = StoreHandle(Source.model_validate(source), credentials, self._open_store)
            case CloseStoreOrder(number):
                closing = asyncio.create_task(self._stores.pop(number).aclose())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
            case Ping():
                self._stream.send(Pong())

    async def _fetch(self, job: int, store: int, piece: Piece) -> Fetched:
        def arrived(here: int) -> None:
            if not told_by_its_end(piece):
                self._stream.send(BytesArrived(job, here))

        return await fetch_piece(await self._stores[store].store(), piece, arrived, self._progress)

    def _answer(self, job: int, task: asyncio.Task[Fetched]) -> None:
        """Answer, for a task that was cancelled before it began, too: each job is answered."""
        del self._jobs[job]
        if task.cancelled():
            self._stream.send(PieceFailed.of(job, InternalError("the fetch was cancelled")))
        elif (error := task.exception()) is not None:
            self._stream.send(PieceFailed.of(job, error))
        elif len(self._jobs) < _BUSY:
            self._stream.send(PieceDone(job, task.result()))
        else:
            self._stream.send_among_others(PieceDone(job, task.result()))
        if not self._jobs and self._resting is None:
            self._resting = asyncio.get_running_loop().call_later(_REST_SECONDS, self._rest)

    def _rest(self) -> None:
        """Give back what was kept for bodies, unless there are some again: milliseconds, which nobody waits for."""
        self._resting = None
        if not self._jobs:
            give_back_memory()


async def _run(connection: socket.socket, settings: ConnectionSettings) -> None:
    loop = asyncio.get_running_loop()
    keep_freed_memory(_KEPT_MEMORY)
    loop.set_default_executor(ThreadPoolExecutor(_DISK_THREADS, thread_name_prefix="disk"))
    await Worker(settings).run(connection)


def _die_with(parent: int) -> None:
    """Have the kernel end this process with its fetcher: none may be left behind that goes on writing."""
    end_with_parent()
    if os.getppid() != parent:
        os._exit(0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker, which ends with the fetcher, and by no signal that is meant for it alone. Does not return."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="end of a socket pair")
    parser.add_argument("--parent", type=int, required=True, help="process id of the fetcher")
    parser.add_argument("--connection", type=json.loads, required=True, help="ConnectionSettings as JSON")
    parser.add_argument("--log-level", default="INFO")
    options = parser.parse_args(argv)
    _die_with(options.parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the fetcher decides
    logging.basicConfig(level=options.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    uvloop.run(_run(socket.socket(fileno=options.fd), ConnectionSettings(**options.connection)))
    # The fetcher waits for no answer any more: threads that still write need not end first.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
