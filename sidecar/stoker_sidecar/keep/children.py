"""Starts child processes, reaps them (and orphans, as PID 1 must) and starts them again when they end."""

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from stoker_sidecar.keep.restarts import PATIENT, History, Policy, after_end

_log = logging.getLogger("stoker.keeper")
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Start:
    """How one child is started. ``uid`` None: as the keeper itself; else that user and group, with no other groups."""

    command: Sequence[str]
    uid: int | None = None
    keep_fds: tuple[int, ...] = ()


def _die_with_keeper() -> None:
    """Runs in the child: a killed keeper must not leave processes behind that hold mounts (outside a PID namespace)."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _spawn(start: Start) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        start.command,
        stdin=subprocess.DEVNULL,
        pass_fds=start.keep_fds,
        preexec_fn=_die_with_keeper,  # noqa: PLW1509  the keeper has one thread
        user=start.uid,
        group=start.uid,
        extra_groups=None if start.uid is None else [],
    )


class Reaper:
    """Waits for all children in one place. Must be installed on the running loop before the first child starts."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[int]] = {}

    def install(self) -> None:
        """Take over SIGCHLD of the running event loop."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def ended(self, pid: int) -> "asyncio.Future[int]":
        """Resolves with the exit code of ``pid`` (negative: the signal). Ask in the same step that started it."""
        return self._waiting.setdefault(pid, asyncio.get_running_loop().create_future())

    def _reap(self) -> None:
        with suppress(ChildProcessError):  # none left
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                future = self._waiting.pop(pid, None)  # an orphan that fell to PID 1 has none
                if future is not None and not future.done():
                    future.set_result(os.waitstatus_to_exitcode(status))


class Child:
    """One process that is kept running: started by ``prepare()``, started again with backoff until ``stop``."""

    def __init__(self, name: str, reaper: Reaper, prepare: Callable[[], Start], policy: Policy = PATIENT) -> None:
        self.name = name
        self.pid: int | None = None
        self.last_code: int | None = None
        self.history = History()
        self._reaper = reaper
        self._prepare = prepare
        self._alive_since: float | None = None
        self._policy = policy
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start it, and keep it running in a task."""
        self._task = asyncio.create_task(self._keep_running(), name=self.name)

    async def _keep_running(self) -> None:
        while not self._stopping.is_set():
            self._alive_since = None if self._policy.from_ready else _now()
            self.last_code = await self._run_once()
            if self._stopping.is_set():
                return
            self.history, delay = after_end(self.history, self._lived(), self._policy)
            _log.warning("%s ended with code %s: starting it again in %.1f s", self.name, self.last_code, delay)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)

    def is_ready(self) -> None:
        """The child says so: from here on it lives, for a policy that counts from there."""
        if self._alive_since is None:
            self._alive_since = _now()

    def _lived(self) -> float:
        return 0.0 if self._alive_since is None else _now() - self._alive_since

    async def _run_once(self) -> int | None:
        try:
            process = _spawn(self._prepare())
        except (OSError, subprocess.SubprocessError) as error:
            _log.error("%s could not be started: %s", self.name, error)
            return None
        self.pid = process.pid
        process.returncode = await self._reaper.ended(process.pid)  # set, so that Popen does not wait for it as well
        self.pid = None
        return process.returncode

    async def stop(self, grace: float) -> None:
        """End it: SIGTERM, after ``grace`` seconds SIGKILL. 0: SIGKILL at once. Returns when it is gone."""
        self._stopping.set()
        if self._task is None:
            return
        self._signal(signal.SIGTERM if grace else signal.SIGKILL)
        done, _ = await asyncio.wait([self._task], timeout=grace)
        if not done:
            self._signal(signal.SIGKILL)
            await self._task

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
