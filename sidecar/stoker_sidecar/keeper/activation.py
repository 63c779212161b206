"""Socket activation: the keeper starts a process for each connection, which answers one question and ends.

An idle node runs no such process.
"""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from stoker_sidecar.keeper.children import Reaper
from stoker_sidecar.linux.spawn import Start, end, execute

_log = logging.getLogger("stoker.keeper")
# Seconds for a question: each framework plug-in has 5, an order plug-in 30, and imports on a busy node take some.
_FOR_A_PLUGIN, _FOR_AN_ORDER, _FOR_THE_ASKER = 6.0, 32.0, 30.0
_ASKERS = 2  # one per kind of plug-in: a slow order delays no other question
# The agent gives up on a reader long before, and a reader ends when the agent does.
_FOR_A_READER = 3600.0
_READERS = 4  # at once; the agent requests fewer
# The variables that Python needs. The keeper's environment may contain a node's credentials.
_VARIABLES = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "STOKER_LOG_FORMAT", "VIRTUAL_ENV")


class ActivationSocket:
    """Starts ``command`` for each connection, with at most ``at_once`` processes. Further clients wait.

    ``name`` is for people. ``run_as`` is the process's user (None: the keeper's). A process is killed after
    ``seconds``.
    """

    def __init__(
        self, reaper: Reaper, name: str, command: Sequence[str], run_as: int | None, seconds: float, at_once: int = 1
    ) -> None:
        self._reaper = reaper
        self.name = name
        self._command = [sys.executable, "-P", "-m", *command]
        self._run_as = run_as
        self._seconds = seconds
        self._free = asyncio.Semaphore(at_once)
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._pids: list[int] = []

    @property
    def pid(self) -> int | None:
        """The last started process that still runs."""
        return self._pids[-1] if self._pids else None

    def listen(self, path: Path) -> None:
        """Serve on ``path``, only for this user. Raises OSError."""
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._listener.bind(str(path))
        path.chmod(0o600)
        self._listener.listen(4)
        self._keep(asyncio.create_task(self._serve(self._listener), name=self.name))

    async def stop(self) -> None:
        """End running processes, and close the socket. Idempotent."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        self._listener = None

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, listener: socket.socket) -> None:
        while True:
            await self._free.acquire()
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            self._keep(asyncio.create_task(self._answer(connection), name=self.name))

    async def _answer(self, connection: socket.socket) -> None:
        try:
            with connection:
                pid = self._started(connection)
            if pid is not None:
                await self._until_ended(pid)
        finally:
            self._free.release()

    def _started(self, connection: socket.socket) -> int | None:
        environment = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
        fds = {"--connection-fd": connection.fileno()}
        start = Start(self._command, self._run_as, fds, environment | {"PYTHONDONTWRITEBYTECODE": "1"})
        try:
            return execute(start)
        except (OSError, subprocess.SubprocessError) as error:
            _log.error("the %s could not be started: %s", self.name, error)
            return None

    async def _until_ended(self, pid: int) -> None:
        self._pids.append(pid)
        gone = self._reaper.ended(pid)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await asyncio.shield(gone)
        finally:
            if not gone.done():
                end(pid, signal.SIGKILL)
            self._pids.remove(pid)


def asker_socket(reaper: Reaper, frameworks: str, orders: str, run_as: int | None, log_level: str) -> ActivationSocket:
    """Return the socket for questions to plug-ins.

    ``frameworks``, ``orders``: names of plug-ins, by commas. ``run_as``: a user without other processes.
    """
    command = [
        "stoker_sidecar.helpers.asker.main",
        "--framework",
        frameworks,
        "--order",
        orders,
        "--log-level",
        log_level,
    ]
    command += [] if run_as is None else ["--own-user"]
    seconds = _FOR_THE_ASKER + max(_FOR_AN_ORDER, _FOR_A_PLUGIN * (frameworks.count(",") + 1))
    return ActivationSocket(reaper, "asker", command, run_as, seconds, _ASKERS)


def reader_socket(reaper: Reaper, run_as: int | None, log_level: str, *, confine: bool) -> ActivationSocket:
    """Return the socket for reading files of versions. ``run_as`` is the owner of the cache."""
    command = [
        "stoker_sidecar.helpers.reader.main",
        "--log-level",
        log_level,
        "--confine",
        "Auto" if confine else "Off",
    ]
    return ActivationSocket(reaper, "reader", command, run_as, _FOR_A_READER, _READERS)
