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
from stoker_sidecar.worker.transfer import Arrived, Fetched, Piece, told_by_its_end


@dataclass(eq=False)
class PieceJob:
    """A piece that a worker was asked for. ``since_ns``: when, since 1970. ``lost``: workers that died with it.

    The caller's cancellation also cancels ``answer``. The caller then waits for ``ended``, which is set once no worker
    has the job.
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
        """True if its caller is gone."""
        return self.answer.cancelled()

    def succeed(self, fetched: Fetched) -> None:
        """Give the answer of the worker that has done it."""
        if not self.answer.done():
            self.answer.set_result(fetched)
        self._end()

    def fail(self, error: Exception) -> None:
        """Fail the job. No worker runs it."""
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
    """Start a separate program, as a `Launch`. It takes half a second of imports, and memory that is not shared."""
    command = [sys.executable, "-m", "stoker_sidecar.worker.main", *arguments, f"--fd={fd}"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[fd])
    process.returncode = 0  # ``reap`` waits for it; Popen would report a missing exit status
    return process.pid


@dataclass(eq=False)
class WorkerProcess:
    """A worker process and its jobs. Call ``start`` first.

    ``ended`` is called once when the process is gone. ``heard``: the time of its last message, by ``clock``.
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
        """Give the worker a job. The answer goes to ``job.answer``."""
        if not self.jobs:
            self.heard = self.clock()
        self.jobs[job.number] = job
        self._stream.send(FetchOrder(job.number, self._number(job.handle), job.piece))

    def cancel(self, job: PieceJob) -> None:
        """Tell the worker that a job lost its caller. The job is still answered."""
        self._stream.send(CancelOrder(job.number))

    def ping(self) -> None:
        """Request a message from it."""
        self._stream.send(Ping())

    def forget(self, handle: StoreHandle) -> None:
        """Let it close its connections for a store."""
        number = self._handles.pop(handle, None)
        if number is not None:
            self._stream.send(CloseStoreOrder(number))

    def is_stopped(self) -> bool:
        """Return True if it was stopped (SIGSTOP) since the last call."""
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
