"""The socket at which plug-ins are asked: whoever connects gets an asker, a process that answers one question and ends.

So none runs, and takes no memory, while nobody asks.
"""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from stoker_sidecar.keeper.children import Reaper
from stoker_sidecar.linux.spawn import Start, end, execute

_log = logging.getLogger("stoker.keeper")
# Seconds of a round: each plug-in has 5, an order 30, and the imports of a busy node take some.
_FOR_A_PLUGIN, _FOR_AN_ORDER, _FOR_THE_ASKER = 6.0, 32.0, 30.0
# What Python needs; the keeper's environment may have a node's credentials in it.
_VARIABLES = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "VIRTUAL_ENV")


class AskerSocket:
    """Starts an asker for one connection after the other; who connects meanwhile waits.

    ``names``: of the plug-ins, by commas. ``run_as``: a user that nobody else is (None: the keeper's own). ``orders``:
    they are order plug-ins, of which one is asked at a time.
    """

    def __init__(self, reaper: Reaper, names: str, run_as: int | None, log_level: str, *, orders: bool = False) -> None:
        self._reaper = reaper
        self._run_as = run_as
        self.name = "order asker" if orders else "asker"
        self._seconds = _FOR_THE_ASKER + (_FOR_AN_ORDER if orders else _FOR_A_PLUGIN * (names.count(",") + 1))
        self._command = [sys.executable, "-P", "-m", "stoker_sidecar.asker.main", "--names", names]
        self._command += ["--log-level", log_level, *([] if run_as is None else ["--own-user"])]
        self._command += ["--orders"] if orders else []
        self._listener: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self.pid: int | None = None

    def listen(self, path: Path) -> None:
        """Serve on ``path``, for this user alone. Raises OSError."""
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._listener.bind(str(path))
        path.chmod(0o600)
        self._listener.listen(4)
        self._task = asyncio.create_task(self._serve(self._listener), name=self.name)

    async def stop(self) -> None:
        """End the asker, if one runs, and listen no more. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        self._task = self._listener = None

    async def _serve(self, listener: socket.socket) -> None:
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            with connection:
                await self._answer(connection)

    async def _answer(self, connection: socket.socket) -> None:
        environment = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
        start = Start(
            self._command,
            self._run_as,
            {"--connection-fd": connection.fileno()},
            environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        )
        try:
            self.pid = execute(start)
        except (OSError, subprocess.SubprocessError) as error:
            _log.error("the asker of plug-ins could not be started: %s", error)
            return
        connection.close()  # its end is to be seen when the asker's own copy is closed
        gone = self._reaper.ended(self.pid)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await asyncio.shield(gone)
        finally:
            if not gone.done():
                end(self.pid, signal.SIGKILL)
            self.pid = None
