"""Runs a training command once, receives its reports, and measures its time."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker_cli.errors import CliError
from stoker_cli.output import printable
from stoker_tuning.profiling.epoch_split import RunFigures
from stoker_tuning.profiling.run_ledger import RunLedger
from stoker_tuning.reports.line import MOST_BYTES, ReportRefusedError, parse_line

SOCKET_VARIABLE = "STOKER_REPORT_SOCKET"
PLACEHOLDER = "{data}"
_POLL = 0.1  # seconds between two checks for its end
_END_SECONDS = 10.0
_TICK = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the name in parentheses: session; utime, stime, cutime, cstime in ticks.
_SESSION, _TIMES = 3, slice(11, 15)


def filled(command: Sequence[str], folder: Path) -> list[str]:
    """Return the command with ``{data}`` replaced by the data folder. Pure."""
    return [word.replace(PLACEHOLDER, str(folder)) for word in command]


class ProfiledCommand:
    """One run of a training command to its end, or with ``first_epoch`` to the end of its first epoch.

    ``environment``: variables in addition to those of this process.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], *, first_epoch: bool = False) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._first_epoch = first_epoch
        self._ledger = RunLedger()
        self._cpu: dict[int, float] = {}  # CPU seconds at the start of each epoch, by the number of begun epochs
        self._last_cpu = 0.0
        self.refused = ""  # the error of the last invalid report

    def run(self, folder: Path, on_poll: Callable[[], None] = lambda: None) -> RunFigures:
        """Run it. ``folder``: for the report socket. Raises CliError if it fails."""
        with _report_socket(folder / "report.sock") as listener:
            began = time.monotonic()
            with self._started(folder / "report.sock") as process:
                while process.poll() is None and not self._is_over():
                    self._hear(listener, process.pid)
                    on_poll()
                ended, code = time.monotonic(), process.poll()
                self._hear_all(listener)
        if code:
            raise CliError(f"{printable(self._command[0])} failed with exit code {code}. See its output above.")
        return self._figures(ended - began)

    def _is_over(self) -> bool:
        return self._first_epoch and self._ledger.begun > 1

    @contextmanager
    def _started(self, address: Path) -> "Iterator[subprocess.Popen[bytes]]":
        environment = {**os.environ, **self._environment, SOCKET_VARIABLE: str(address)}
        try:
            # Standard output is reserved for the profile.
            process = subprocess.Popen(
                self._command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                start_new_session=True,
            )
        except OSError as error:
            raise CliError(f"Cannot run {printable(self._command[0])}: {error.strerror}.") from error
        try:
            yield process
        finally:
            _end(process)

    def _hear(self, listener: socket.socket, pid: int) -> None:
        with suppress(TimeoutError):
            self._take(listener.recv(MOST_BYTES + 1))
            self._last_cpu = session_cpu(pid)
            self._cpu.setdefault(self._ledger.begun, self._last_cpu)

    def _hear_all(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                self._take(listener.recv(MOST_BYTES + 1))

    def _take(self, data: bytes) -> None:
        now = time.monotonic()
        try:
            self._ledger.take(parse_line(data), now)
        except ReportRefusedError as error:
            self.refused = str(error)

    def _figures(self, seconds: float) -> RunFigures:
        """Return the reported first epoch, or the whole run without reports."""
        epochs = self._ledger.epochs()
        if not epochs:
            return RunFigures(seconds)
        first = epochs[0]
        spent = self._cpu.get(2, self._last_cpu) - self._cpu.get(1, 0.0)
        reported = (first.waited, first.computed, first.first, first.items)
        return RunFigures(first.seconds, *reported, spent or None, first.progress)


@contextmanager
def _report_socket(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(_POLL)
        try:
            yield listener
        finally:
            path.unlink()


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the processes of its session, with SIGTERM and then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
            return


def session_cpu(session: int) -> float:
    """Return the CPU seconds of the processes of a session and of their ended children."""
    return sum(ticks for path in Path("/proc").glob("[0-9]*/stat") if (ticks := _ticks(path, session))) / _TICK


def _ticks(path: Path, session: int) -> int:
    try:
        fields = path.read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0
    return sum(map(int, fields[_TIMES])) if int(fields[_SESSION]) == session else 0
