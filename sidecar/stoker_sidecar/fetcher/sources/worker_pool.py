"""Several worker processes as one PieceFetcher: the least busy one gets a piece, and a dead worker's pieces move on."""

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from stoker_api.backoff import BackoffPolicy
from stoker_sidecar.errors import InternalError
from stoker_sidecar.fetcher.sources.worker_process import Launch, PieceJob, WorkerProcess, execute
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.worker.files import is_intact
from stoker_sidecar.worker.transfer import Arrived, Fetched, Piece

_log = logging.getLogger(__name__)
# One core runs a worker's event loop. Beyond four, the disk or the link is the limit. Each takes 40 MB.
_MOST_WORKERS = 4
# Workers that may die with a piece before the piece counts as the cause.
_LOST = 5
# A worker that starts takes half a second; when it dies before its first answer, the next one waits.
_RESTART = BackoffPolicy(base=0.1, cap=5.0)
# Seconds: a worker that has jobs and says nothing, though it is asked to, is stopped or stuck. A full disk queue
# blocks for less.
_PING_EVERY = 5.0
_SILENT = 30.0


def default_workers() -> int:
    """Return the number of workers for this machine: one for each core that this process may use, 4 at most."""
    return min(_MOST_WORKERS, len(os.sched_getaffinity(0)))


@dataclass
class WorkerPool:
    """A PieceFetcher of ``count`` worker processes. ``open`` first, ``close`` last."""

    count: int
    settings: ConnectionSettings
    clock: Callable[[], float]
    launch: Launch = execute
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    _workers: list[WorkerProcess] = field(default_factory=list)
    _waiting: list[PieceJob] = field(default_factory=list)  # while no worker lives
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _deaths: int = 0  # of workers that never answered, in a row
    _closing: bool = False

    async def open(self) -> None:
        """Start the processes. Raises OSError when they cannot be started."""
        for _ in range(self.count):
            await self._start()
        self._spawn(self._watch())

    async def close(self) -> None:
        """End the processes. Pieces in flight fail."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        workers, self._workers = self._workers, []
        for job in [job for worker in workers for job in worker.jobs.values()] + self._waiting:
            job.fail(InternalError("the fetcher is stopping"))
        for worker in workers:
            worker.kill()  # it has nothing to save, and one that is stopped would never see the end of its socket
        await asyncio.gather(*(worker.reap() for worker in workers))

    async def fetch(self, handle: StoreHandle, piece: Piece, arrived: Arrived) -> Fetched:
        """Bring a piece: see PieceFetcher."""
        answer: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        job = PieceJob(next(self._numbers), handle, piece, arrived, answer, time.time_ns())
        self._give(job)
        try:
            return await answer
        except asyncio.CancelledError:
            await self._cancel(job)
            raise

    def end_stopped(self) -> None:
        """Kill workers that were stopped, because readers wait for their pieces. The handler of SIGCHLD calls it."""
        for worker in self._workers:
            if worker.is_stopped():
                _log.error("worker %d was stopped (SIGSTOP): it is killed, and another takes its place", worker.pid)
                worker.kill()

    def forget(self, handle: StoreHandle) -> None:
        """Make all workers forget the handle: see PieceFetcher."""
        for worker in self._workers:
            worker.forget(handle)

    def _give(self, job: PieceJob) -> None:
        if self._workers:
            min(self._workers, key=lambda worker: len(worker.jobs)).give(job)
        elif self._closing:
            job.fail(InternalError("the fetcher is stopping"))
        else:
            self._waiting.append(job)

    async def _cancel(self, job: PieceJob) -> None:
        if job in self._waiting:
            self._waiting.remove(job)
            return
        job.ended = asyncio.get_running_loop().create_future()
        for worker in self._workers:
            if job.number in worker.jobs:
                worker.cancel(job)
                await job.ended
                return

    async def _start(self) -> None:
        worker = WorkerProcess(self.settings, self._ended, self.clock, self.launch)
        await worker.start()
        self._workers.append(worker)
        self.end_stopped()  # a worker may have stopped before it was listed, and no second signal follows
        waiting, self._waiting = self._waiting, []
        for job in waiting:
            self._give(job)

    def _ended(self, worker: WorkerProcess) -> None:
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._deaths = 0 if worker.useful else self._deaths + 1
        _log.warning("worker %d ended with %d pieces in flight: another takes them over", worker.pid, len(worker.jobs))
        for job in worker.jobs.values():
            self._again(job)
        self._spawn(self._replace(worker))

    def _again(self, job: PieceJob) -> None:
        job.lost += 1
        if job.cancelled:
            job.fail(InternalError("cancelled"))
        elif job.piece.target and _is_published(job):
            job.succeed(Fetched(published=True, md5="", etag_may_be_md5=True))
        elif job.lost >= _LOST:
            message = f"{job.lost} worker processes of the fetcher died while they fetched {job.piece.key}"
            job.fail(InternalError(message))
        else:
            self._give(job)

    async def _replace(self, dead: WorkerProcess) -> None:
        await dead.reap()
        while not self._closing:
            if self._deaths:
                await self.sleep(_RESTART.delay(self._deaths, 1.0))
            try:
                await self._start()
            except OSError as error:
                self._deaths += 1
                _log.error("a worker of the fetcher cannot be started: %s", error)
            else:
                return

    async def _watch(self) -> None:
        while True:
            await self.sleep(_PING_EVERY)
            self._look_at_all(busy=any(worker.jobs for worker in self._workers))

    def _look_at_all(self, *, busy: bool) -> None:
        """Check also idle workers.

        The jobs of a killed worker could go to a stopped one next.
        """
        now = self.clock()
        for worker in self._workers:
            if not busy:
                worker.heard = now  # it has no jobs
                continue
            worker.ping()
            if now - worker.heard > _SILENT:
                _log.error("worker %d has said nothing for %.0f s: it is killed", worker.pid, now - worker.heard)
                worker.kill()

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _is_published(job: PieceJob) -> bool:
    """Return True if the worker died between the rename and its answer. A damaged file is older than the job."""
    piece = job.piece
    return is_intact(piece.target, piece) and Path(piece.target).stat().st_ctime_ns >= job.since_ns
