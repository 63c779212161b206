"""A worker process of the fetcher: GET, write, check, rename. Its zygote gives it one end of a socket pair.

The zygote is a fork of the fetcher from before it had threads. It forks workers in milliseconds.
"""

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
from typing import NoReturn

import uvloop

from stoker_api.datasets.dataset_source import Source
from stoker_api.log_lines import log_to_stderr
from stoker_sidecar.errors import InternalError
from stoker_sidecar.linux import packets
from stoker_sidecar.linux.libc import adopt_orphans, end_with_parent, give_back_memory, keep_freed_memory, name_process
from stoker_sidecar.linux.spawn import is_stopped
from stoker_sidecar.store.base import Retry
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.opening import StoreHandle, open_store
from stoker_sidecar.wire.zygote_orders import answer_orders, order
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
from stoker_sidecar.worker.transfer import Fetched, Piece, PieceProgress, fetch_piece, told_by_its_end

# Threads for work on the disk.
_DISK_THREADS = 4
# Bytes of freed memory to keep for bodies of small files, and about how many seconds to keep them after the last job.
_KEPT_MEMORY, _REST_SECONDS = 8 * 1024 * 1024, 10.0
# Number of jobs from which an answer may wait a moment for the next ones. A few waiting readers cause fewer jobs.
_BUSY = 8


class Worker:
    """Executes the fetcher's orders until the socket closes."""

    def __init__(self, connection: ConnectionSettings) -> None:
        retry = Retry(asyncio.sleep)  # for retries within a store; the fetcher retries pieces
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
        """Answer a job. Every job gets an answer, even if it was cancelled before it began."""
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
        """Return the memory kept for bodies to the system, unless jobs are running. Takes milliseconds."""
        self._resting = None
        if not self._jobs:
            give_back_memory()


async def _run(connection: socket.socket, settings: ConnectionSettings) -> None:
    loop = asyncio.get_running_loop()
    keep_freed_memory(_KEPT_MEMORY)
    loop.set_default_executor(ThreadPoolExecutor(_DISK_THREADS, thread_name_prefix="disk"))
    await Worker(settings).run(connection)


def _die_with(parent: int) -> None:
    """Make the kernel end this process with its fetcher, so that no worker keeps writing without one."""
    end_with_parent()
    if os.getppid() != parent:
        os._exit(0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker. It ends with the fetcher and ignores SIGINT. Does not return."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="end of a socket pair")
    parser.add_argument("--parent", type=int, required=True, help="process id of the fetcher")
    parser.add_argument("--connection", type=json.loads, required=True, help="ConnectionSettings as JSON")
    parser.add_argument("--log-level", default="INFO")
    options = parser.parse_args(argv)
    _die_with(options.parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from a terminal: the fetcher decides
    log_to_stderr(options.log_level)
    uvloop.run(_run(socket.socket(fileno=options.fd), ConnectionSettings(**options.connection)))
    # The fetcher is gone, so do not wait for threads that still write.
    sys.stdout.flush()
    os._exit(0)


_log = logging.getLogger("stoker.fetcher")
# Timeout of a fork in seconds. A fork takes 10 ms; with a busy disk and an empty page cache it took 0.6 s. A restart of
# the fetcher takes longer.
_PATIENCE = 5.0


class WorkerZygote:
    """The fetcher's handle of the workers' zygote. Create it while the fetcher has one thread.

    Its workers are children of the fetcher and end with it.

    ``unwanted``: descriptors of the fetcher that neither the zygote nor its workers need.
    """

    def __init__(self, unwanted: Sequence[int]) -> None:
        adopt_orphans()
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            self._orders.close()
            packets.close_all(unwanted)
            os._exit(_serve(theirs))
        theirs.close()

    def launch(self, arguments: Sequence[str], fd: int) -> int:
        """Start a worker with ``--fd`` and return its pid. If the zygote is gone or hangs, call ``lost``."""
        try:
            return order(self._orders, self._pid, _PATIENCE, arguments, {"--fd": fd})
        except OSError as error:  # a late answer would look like the answer to the next order
            _log.error("no worker can be forked: %s", error)
            self.lost()

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the zygote is gone."""
        return self._orders.fileno()

    def end_if_stopped(self) -> None:
        """End the fetcher if the zygote is stopped (SIGSTOP). For the handler of SIGCHLD; see ``lost``."""
        if is_stopped(self._pid):
            self.lost()

    def lost(self) -> NoReturn:
        """End the fetcher, because it cannot fork workers without the zygote.

        The keeper restarts the fetcher, which takes less time than a worker's imports.
        """
        _log.error("the workers' zygote ended or hangs: the fetcher ends and is restarted")
        os._exit(1)


def _serve(orders: socket.socket) -> int:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from a terminal: the fetcher decides
    name_process("stoker-zygote")
    arguments = answer_orders(orders, "stoker-worker")
    return 0 if arguments is None else main(arguments)


if __name__ == "__main__":
    sys.exit(main())
