"""Stopped worker processes (SIGSTOP), with a pool clock that the test controls."""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.fetcher.sources.worker_pool import WorkerPool
from stoker_sidecar.fetcher.sources.worker_process import execute
from stoker_sidecar.store.base import ObjectStore
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.folders.local import LocalStore
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.wire.credentials import AmbientCredentials, Credentials
from stoker_sidecar.worker.transfer import Piece
from tests.support.waiting import eventually

CONTENT = os.urandom(100_000)


class Clock:
    """Advances only in the naps that the test grants."""

    def __init__(self) -> None:
        self.now = 0.0
        self._naps = asyncio.Semaphore(0)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        await self._naps.acquire()
        self.now += seconds

    def grant(self, naps: int) -> None:
        for _ in range(naps):
            self._naps.release()


async def _open_store(source: Source, credentials: Credentials) -> ObjectStore:
    return LocalStore(Path(source.uri.removeprefix("file://")), ["/"])


def _children() -> set[int]:
    """Return the children of this process: workers, and the servers that other tests of the session share."""
    listed = Path("/proc/self/task").glob("*/children")
    return {int(pid) for children in listed for pid in children.read_text().split()}


async def test_workers_that_are_all_stopped_are_replaced_together(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    file = tmp_path / "source" / "a"
    file.write_bytes(CONTENT)
    status = file.stat()
    size, etag = len(CONTENT), f"{status.st_mtime_ns:x}-{status.st_size:x}"
    clock = Clock()

    def piece(name: str) -> Piece:
        return Piece("a", etag, "", 0, size, str(tmp_path / name), "", size, 0, hashing=False)

    others = _children()
    pool = WorkerPool(2, ConnectionSettings(host_folders=["/"]), clock, sleep=clock.sleep)
    handle = StoreHandle(Source(uri=f"file://{tmp_path}/source"), AmbientCredentials(), _open_store)
    await pool.open()
    try:
        await asyncio.gather(*(pool.fetch(handle, piece(f"first{n}"), lambda size: None) for n in range(2)))
        stopped = _children() - others
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        late = asyncio.create_task(pool.fetch(handle, piece("late"), lambda size: None))
        clock.grant(8)  # of 5 s: beyond the 30 s after which a silent one is killed
        async with asyncio.timeout(60):
            await late
        assert (tmp_path / "late").read_bytes() == CONTENT
        assert not _children() & stopped
    finally:
        await handle.aclose()
        await pool.close()


async def test_a_stopped_worker_is_told_from_one_that_runs_and_is_killed_at_once() -> None:
    others = _children()
    pool = WorkerPool(2, ConnectionSettings(host_folders=["/"]), asyncio.get_running_loop().time)
    await pool.open()
    try:
        first, second = sorted(_children() - others)
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, told.set)
        os.kill(first, signal.SIGSTOP)
        async with asyncio.timeout(60):
            await told.wait()
        pool.end_stopped()
        await eventually(lambda: first not in _children(), 60)
        assert second in _children()
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)
        await pool.close()


async def test_a_worker_that_is_stopped_before_the_pool_knows_it_is_replaced() -> None:
    """The kernel reports a stopped child only once, even if its pool did not look for it at that time."""
    pids: list[int] = []

    def launch(arguments: Sequence[str], fd: int) -> int:
        pid = execute(arguments, fd)
        pids.append(pid)
        if len(pids) == 1:
            os.kill(pid, signal.SIGSTOP)
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        return pid

    pool = WorkerPool(1, ConnectionSettings(host_folders=["/"]), asyncio.get_running_loop().time, launch)
    await pool.open()
    try:
        await eventually(lambda: len(pids) == 2, 60)
    finally:
        await pool.close()


async def test_a_stopped_worker_does_not_hold_up_the_end_of_the_pool() -> None:
    others = _children()
    pool = WorkerPool(1, ConnectionSettings(host_folders=["/"]), asyncio.get_running_loop().time)
    await pool.open()
    (pid,) = _children() - others
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(60):
        await pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
