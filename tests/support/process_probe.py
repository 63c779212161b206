"""Checks which files running processes of Stoker may open, from inside. On a signal, they try, and log the results.

The code enters each of them as Python's sitecustomize, through PYTHONPATH, and through forks of zygotes.
"""

import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import wait_until

_WORD = "PROBED "
_CODE = """
import json, os, signal, socket

def _attempt(what, argument):
    if what == "read":
        os.close(os.open(argument, os.O_RDONLY))
    elif what == "write":
        path = os.path.join(argument, "probe-%d" % os.getpid())
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
        os.unlink(path)
    elif what == "signal":
        os.kill(int(argument), 0)
    elif what == "connect":
        with socket.socket() as connection:
            connection.connect(("127.0.0.1", int(argument)))

def _met(what, argument):
    try:
        _attempt(what, argument)
    except OSError as error:
        return error.errno
    return 0

def _probe(number, frame):
    met = [_met(*one) for one in json.loads(os.environ["STOKER_TEST_PROBES"])]
    os.write(2, ("PROBED " + json.dumps([os.getpid(), met]) + chr(10)).encode())

signal.signal(signal.SIGUSR2, _probe)
"""


@dataclass(frozen=True)
class ProcessProbe:
    """Attempts as (read, write, signal or connect; path, PID or port), and the log with the results.

    ``environment`` is for the processes under test. Raises TimeoutError if one does not answer.
    """

    attempts: Sequence[tuple[str, str]]
    code: Path

    def environment(self) -> Mapping[str, str]:
        """Return the environment variables of the processes. Write their code."""
        self.code.mkdir(exist_ok=True)
        (self.code / "sitecustomize.py").write_text(_CODE)
        path = os.pathsep.join(filter(None, [str(self.code), os.environ.get("PYTHONPATH")]))
        return {"PYTHONPATH": path, "STOKER_TEST_PROBES": json.dumps(self.attempts)}

    def ask(self, pid: int, log: Path) -> dict[str, int]:
        """Run the attempts in a process. Return the errno of each, 0 for success, by "what argument"."""
        os.kill(pid, signal.SIGUSR2)
        wait_until(lambda: self._answer(pid, log) is not None)
        met = self._answer(pid, log) or []
        return {f"{what} {argument}": code for (what, argument), code in zip(self.attempts, met, strict=True)}

    @staticmethod
    def _answer(pid: int, log: Path) -> list[int] | None:
        lines = [line.partition(_WORD)[2] for line in log.read_text().splitlines() if _WORD in line]
        return next((met for said, met in map(json.loads, lines) if said == pid), None)
