"""Reaps child processes (and orphans, as PID 1 must), and restarts them when they end or hang."""

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress

from stoker_sidecar.keeper.watchdog import PATIENT, RestartHistory, RestartPolicy, Watchdog, after_end
from stoker_sidecar.linux.spawn import Spawn, Start, end, execute, with_heartbeat

_log = logging.getLogger("stoker.keeper")


def _now() -> float:
    return asyncio.get_running_loop().time()


class Reaper:
    """The single place where the keeper waits for its children. It kills a child that was stopped (SIGSTOP).

    Install it on the running loop before the first child starts.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[int]] = {}

    def install(self) -> None:
        """Take over SIGCHLD of the running event loop."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def ended(self, pid: int) -> "asyncio.Future[int]":
        """Return the future exit code of ``pid`` (negative: the signal).

        Call it in the step that started the process.
        """
        return self._waiting.setdefault(pid, asyncio.get_running_loop().create_future())

    def _reap(self) -> None:
        with suppress(ChildProcessError):  # none left
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    return
                if os.WIFSTOPPED(status):
                    self._end_stopped(pid)
                    continue
                future = self._waiting.pop(pid, None)  # an orphan adopted by PID 1 has none
                if future is not None and not future.done():
                    future.set_result(os.waitstatus_to_exitcode(status))

    def _end_stopped(self, pid: int) -> None:
        """Kill a stopped child: other processes wait for it, possibly forever."""
        if pid in self._waiting:
            _log.error("the child %d was stopped (SIGSTOP): it is killed, and another takes its place", pid)
            end(pid, signal.SIGKILL)


class Child:
    """One supervised process: started with ``prepare()``, and restarted with backoff until ``stop``.

    ``until`` is awaited before each start. ``on_ready`` is called at the first heartbeat of each run.
    """

    def __init__(
        self,
        name: str,
        reaper: Reaper,
        prepare: Callable[[], Start],
        policy: RestartPolicy = PATIENT,
        *,
        spawn: Spawn = execute,
        until: Callable[[], Awaitable[None]] | None = None,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.pid: int | None = None
        self.last_code: int | None = None
        self.history = RestartHistory()
        self._reaper = reaper
        self._prepare = prepare
        self._policy = policy
        self._spawn = spawn
        self._until = until
        self.ready = asyncio.Event()  # set after its first heartbeat
        self._on_ready = on_ready
        self._alive_since: float | None = None
        self._watchdog: Watchdog | None = None
        self._may_begin = False
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start it and keep it running in a task, or release it from ``make_ready``'s wait."""
        self._may_begin = True
        if self._watchdog is not None:
            self._watchdog.line.let_begin()
        self.make_ready()

    def make_ready(self) -> None:
        """Start it early: it imports its modules and waits for ``begin``."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep_running(), name=self.name)

    async def _keep_running(self) -> None:
        while True:
            if self._until is not None:
                await self._unless_stopping(self._until())
            if self._stopping.is_set():
                return
            self._alive_since = None if self._policy.from_ready else _now()
            self.last_code = await self._run_once()
            if self._stopping.is_set():
                return
            self.history, delay = after_end(self.history, self._lived(), self._policy)
            _log.warning("%s ended with code %s: starting it again in %.1f s", self.name, self.last_code, delay)
            await self._unless_stopping(asyncio.sleep(delay))

    async def _unless_stopping(self, wait: Awaitable[None]) -> None:
        waits = [asyncio.ensure_future(wait), asyncio.ensure_future(self._stopping.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in waits:
            task.cancel()

    def _is_ready(self) -> None:
        if self._alive_since is None:
            self._alive_since = _now()
        self.ready.set()
        self._on_ready()

    def _lived(self) -> float:
        return 0.0 if self._alive_since is None else _now() - self._alive_since

    async def _run_once(self) -> int | None:
        self._watchdog = Watchdog(self._policy, self._is_ready, self._kill_hung)
        try:
            self.pid = self._spawn(with_heartbeat(self._prepare(), self._watchdog.line.child_fd))
            gone = self._reaper.ended(self.pid)
            self._watchdog.begin()
            if self._may_begin:
                self._watchdog.line.let_begin()
            return await gone
        except (OSError, subprocess.SubprocessError) as error:
            _log.error("%s could not be started: %s", self.name, error)
            return None
        finally:
            self._watchdog.end()
            self.pid = self._watchdog = None

    def _kill_hung(self) -> None:
        _log.error("%s has given no sign of life for too long: it is killed", self.name)
        self.kill()

    def kill(self) -> None:
        """End this run; the next one follows."""
        end(self.pid, signal.SIGKILL)

    async def stop(self, grace: float) -> None:
        """End it: SIGTERM, and SIGKILL after ``grace`` seconds. 0: SIGKILL at once. Return when it has ended."""
        self._stopping.set()
        if self._task is None:
            return
        end(self.pid, signal.SIGTERM if grace else signal.SIGKILL)
        done, _ = await asyncio.wait([self._task], timeout=grace)
        if not done:
            end(self.pid, signal.SIGKILL)
            await self._task
