"""A worker process of the fetcher: GET, write, check, rename. Started by fetcher.download.worker_pool with one end of a socket pair."""

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

from stoker_api.dataset import Source
from stoker_sidecar.errors import InternalError
from stoker_sidecar.linux.libc import end_with_parent
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.opening import open_store
from stoker_sidecar.store.retry import Retry
from stoker_sidecar.wire.credentials import credentials_from_wire
from stoker_sidecar.worker.messages import (
    ARRIVED,
    CANCEL,
    CLOSE,
    DONE,
    FAILED,
    FETCH,
    OPEN,
    PING,
    PONG,
    Row,
    RowStream,
    error_to_wire,
)
from stoker_sidecar.worker.pieces import Fetched, Piece
from stoker_sidecar.worker.store_handle import StoreHandle
from stoker_sidecar.worker.transfer import fetch_piece

# Threads for work on the disk; those that large bodies come by are the store's own (docs/adr/0018).
_DISK_THREADS = 4


class Worker:
    """Does what the rows say until the socket ends."""

    def __init__(self, connection: ConnectionSettings) -> None:
        retry = Retry(asyncio.sleep)  # for what a store tries again by itself; pieces are tried again by the fetcher
        self._open_store = partial(open_store, settings=connection, retry=retry)
        self._sources: dict[int, StoreHandle] = {}
        self._jobs: dict[int, asyncio.Task[Fetched]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._stream = RowStream(self._received, self._ended.set)

    async def run(self, connection: socket.socket) -> None:
        """Until the fetcher is gone."""
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self._stream, connection)
        await self._ended.wait()

    def _received(self, row: Row) -> None:
        match row:
            case [str(verb), int(job), int(source), fields] if verb == FETCH:
                task = asyncio.create_task(self._fetch(job, source, Piece(*fields)))
                self._jobs[job] = task
                task.add_done_callback(partial(self._answer, job))
            case [str(verb), int(job)] if verb == CANCEL:
                if job in self._jobs:
                    self._jobs[job].cancel()
            case [str(verb), int(number), source, credentials] if verb == OPEN:
                parsed = Source.model_validate(source)
                self._sources[number] = StoreHandle(parsed, credentials_from_wire(credentials), self._open_store)
            case [str(verb), int(number)] if verb == CLOSE:
                closing = asyncio.create_task(self._sources.pop(number).aclose())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
            case [str(verb)] if verb == PING:
                self._stream.send(PONG)

    async def _fetch(self, job: int, source: int, piece: Piece) -> Fetched:
        store = await self._sources[source].store()
        return await fetch_piece(store, piece, partial(self._stream.send, ARRIVED, job))

    def _answer(self, job: int, task: asyncio.Task[Fetched]) -> None:
        """Called for a task that was cancelled before it began, too: each job is answered."""
        del self._jobs[job]
        if task.cancelled():
            self._stream.send(FAILED, job, error_to_wire(InternalError("the fetch was cancelled")))
        elif (error := task.exception()) is not None:
            self._stream.send(FAILED, job, error_to_wire(error))
        else:
            self._stream.send(DONE, job, task.result())


async def _run(connection: socket.socket, settings: ConnectionSettings) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(_DISK_THREADS, thread_name_prefix="disk"))
    await Worker(settings).run(connection)


def _die_with(parent: int) -> None:
    """A killed fetcher must not leave processes behind that go on writing."""
    end_with_parent()
    if os.getppid() != parent:
        os._exit(0)


def main(argv: Sequence[str] | None = None) -> int:
    """Ends with the fetcher, and by no signal that is meant for it alone. Does not return."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="end of a socket pair")
    parser.add_argument("--parent", type=int, required=True, help="process id of the fetcher")
    parser.add_argument("--connection", type=json.loads, required=True, help="ConnectionSettings as JSON")
    parser.add_argument("--log-level", default="INFO")
    options = parser.parse_args(argv)
    _die_with(options.parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the fetcher decides
    logging.basicConfig(level=options.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(_run(socket.socket(fileno=options.fd), ConnectionSettings(**options.connection)))
    # The fetcher waits for no answer any more: threads that still write need not end first.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
