"""One worker process as the fetcher sees it: started, asked, listened to, ended."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.threads import in_thread
from stoker_sidecar.worker.messages import (
    BytesArrived,
    CancelOrder,
    CloseStoreOrder,
    FetchOrder,
    FromWorker,
    MessageStream,
    OpenStoreOrder,
    PieceDone,
    PieceFailed,
    Ping,
    Pong,
    decode_from_worker,
)
from stoker_sidecar.worker.progress import Arrived
from stoker_sidecar.worker.transfer import Fetched, Piece, told_by_its_end


@dataclass(eq=False)
class PieceJob:
    """A piece that a worker was asked for. ``since_ns``: when, since 1970; ``lost``: workers that died with it.

    ``answer`` is cancelled with whoever waits for it; ``ended`` is for those who then wait until no worker has it any
    more.
    """

    number: int
    handle: StoreHandle
    piece: Piece
    arrived: Arrived
    answer: "asyncio.Future[Fetched]"
    since_ns: int
    lost: int = 0
    ended: "asyncio.Future[None] | None" = None

    @property
    def cancelled(self) -> bool:
        """Whether no one waits for it any more."""
        return self.answer.cancelled()

    def succeed(self, fetched: Fetched) -> None:
        """Give the answer of the worker that has done it."""
        if not self.answer.done():
            self.answer.set_result(fetched)
        self._end()

    def fail(self, error: Exception) -> None:
        """Give up: no worker does it any more."""
        if not self.answer.done():
            self.answer.set_exception(error)
        self._end()

    def _end(self) -> None:
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)


Launch = Callable[
    [Sequence[str], int], int
]  # arguments and the descriptor for --fd; the pid of a new child. Raises OSError


def execute(arguments: Sequence[str], fd: int) -> int:
    """Start a program of its own, as a `Launch`: half a second of imports, and memory that nobody shares."""
    command = [sys.executable, "-m", "stoker_sidecar.worker.main", *arguments, f"--fd={fd}"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[fd])
    process.returncode = 0  # ``reap`` waits for it; Popen would complain that it never saw it end
    return process.pid


@dataclass(eq=False)
class WorkerProcess:
    """A worker process and the jobs that it has. ``start`` first.

    ``ended`` is called once when the process is gone. ``heard``: when it last said something, by ``clock``.
    """

    settings: ConnectionSettings
    ended: Callable[["WorkerProcess"], None]
    clock: Callable[[], float]
    launch: Launch = execute
    pid: int = 0
    jobs: dict[int, PieceJob] = field(default_factory=dict)
    heard: float = 0.0
    useful: bool = False  # it has answered a job
    _handles: dict[StoreHandle, int] = field(default_factory=dict)
    _opened: int = 0
    _stream: MessageStream[FromWorker] = field(init=False)

    async def start(self) -> None:
        """Start the process. Raises OSError when it cannot be made."""
        ours, theirs = socket.socketpair()
        with theirs:
            self.pid = self.launch(self._options(), theirs.fileno())  # returns after some milliseconds
        self._stream = MessageStream(decode_from_worker, self._received, lambda: self.ended(self))
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self._stream, ours)
        self.heard = self.clock()

    def give(self, job: PieceJob) -> None:
        """Give it a job; the answer comes to ``job.answer``."""
        if not self.jobs:
            self.heard = self.clock()
        self.jobs[job.number] = job
        self._stream.send(FetchOrder(job.number, self._number(job.handle), job.piece))

    def cancel(self, job: PieceJob) -> None:
        """Tell it that no one waits for a job any more; the job is answered all the same."""
        self._stream.send(CancelOrder(job.number))

    def ping(self) -> None:
        """Have it say something."""
        self._stream.send(Ping())

    def forget(self, handle: StoreHandle) -> None:
        """Let it close its connections for a store."""
        number = self._handles.pop(handle, None)
        if number is not None:
            self._stream.send(CloseStoreOrder(number))

    def is_stopped(self) -> bool:
        """Tell whether someone has stopped it (SIGSTOP) since this was asked last."""
        try:
            return self.pid > 0 and os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG) is not None
        except ChildProcessError:
            return False

    def kill(self) -> None:
        """Kill it; ``ended`` follows."""
        os.kill(self.pid, signal.SIGKILL)

    async def reap(self) -> None:
        """Wait until the process is gone: after ``ended``, or to end it."""
        self._stream.close()
        await in_thread(os.waitpid, self.pid, 0)

    def _options(self) -> list[str]:
        options = {"parent": os.getpid(), "connection": json.dumps(asdict(self.settings))}
        return [f"--{name}={value}" for name, value in options.items()]

    def _number(self, handle: StoreHandle) -> int:
        if handle not in self._handles:
            self._opened += 1
            self._handles[handle] = self._opened
            self._stream.send(OpenStoreOrder(self._opened, handle.source.wire(), handle.credentials))
        return self._handles[handle]

    def _received(self, message: FromWorker) -> None:
        self.heard = self.clock()
        match message:
            case BytesArrived(number, here):
                self.jobs[number].arrived(here)
            case PieceDone(number, fetched):
                job = self._take(number)
                if told_by_its_end(job.piece):
                    job.arrived(job.piece.length)
                job.succeed(fetched)
            case PieceFailed(number):
                self._take(number).fail(message.error)
            case Pong():
                pass

    def _take(self, number: int) -> PieceJob:
        self.useful = True
        return self.jobs.pop(number)
