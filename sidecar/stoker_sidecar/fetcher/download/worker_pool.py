"""Several worker processes as one PieceFetcher: the least busy one is asked, the pieces of a dead one go to others."""

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
from stoker_sidecar.fetcher.download.worker_process import Launch, PieceJob, WorkerProcess, execute
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.worker.files import is_intact
from stoker_sidecar.worker.progress import Arrived
from stoker_sidecar.worker.transfer import Fetched, Piece

_log = logging.getLogger(__name__)
# One core runs a worker's event loop; beyond four the disk or the link is what limits (and each takes 40 MB).
_MOST_WORKERS = 4
# Workers that may die with a piece before the piece is taken to be what kills them.
_LOST = 5
# A worker that starts takes half a second; when it dies before its first answer, the next one waits.
_RESTART = BackoffPolicy(base=0.1, cap=5.0)
# Bodies that go on with the next piece and are looked for with the worker that has them: more than ever are in flight.
_MOST_AHEAD = 512
# Seconds: a worker that has jobs and says nothing, though it is asked to, is stopped or stuck. A full disk queue
# blocks for less.
_PING_EVERY = 5.0
_SILENT = 30.0


def default_workers() -> int:
    """Return how many suit this machine: one for each core that this process may use, 4 at most."""
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
    # Who has more of a body than it was asked for, by source, key and where it goes on; the oldest are forgotten.
    _ahead: dict[tuple[StoreHandle, str, int], WorkerProcess] = field(default_factory=dict)
    _deaths: int = 0  # of workers that never answered, in a row
    _closing: bool = False

    async def open(self) -> None:
        """Start the processes. Raises OSError when they cannot be started."""
        for _ in range(self.count):
            await self._start()
        self._spawn(self._watch())

    async def close(self) -> None:
        """End the processes; what is in flight fails."""
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
        """Kill the workers that someone has stopped, for the handler of SIGCHLD: readers wait for what they have."""
        for worker in self._workers:
            if worker.is_stopped():
                _log.error("worker %d was stopped (SIGSTOP): it is killed, and another takes its place", worker.pid)
                worker.kill()

    def forget(self, handle: StoreHandle) -> None:
        """Have all workers forget it: see PieceFetcher."""
        self._ahead = {place: worker for place, worker in self._ahead.items() if place[0] is not handle}
        for worker in self._workers:
            worker.forget(handle)

    def _give(self, job: PieceJob) -> None:
        if self._workers:
            worker = self._choose(job)
            worker.give(job)
            if job.piece.ahead:
                self._ahead[job.handle, job.piece.key, job.piece.offset + job.piece.length] = worker
                if len(self._ahead) > _MOST_AHEAD:
                    del self._ahead[next(iter(self._ahead))]
        elif self._closing:
            job.fail(InternalError("the fetcher is stopping"))
        else:
            self._waiting.append(job)

    def _choose(self, job: PieceJob) -> WorkerProcess:
        """Choose who has asked for this piece already, with the one before it; else the least busy one."""
        worker = self._ahead.pop((job.handle, job.piece.key, job.piece.offset), None)
        if worker is not None and worker in self._workers:
            return worker
        return min(self._workers, key=lambda worker: len(worker.jobs))

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
        self.end_stopped()  # whoever was stopped before it was listed: nobody says so again
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
        """Look also at those that have nothing to do now.

        The jobs of one that is killed would go to a stopped one next.
        """
        now = self.clock()
        for worker in self._workers:
            if not busy:
                worker.heard = now  # nobody asks it
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
    """Tell whether the worker died between the rename and its answer; a damaged file is older than the job."""
    piece = job.piece
    return is_intact(piece.target, piece) and Path(piece.target).stat().st_ctime_ns >= job.since_ns
