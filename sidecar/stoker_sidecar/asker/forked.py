"""Starts the process of one plug-in as a fork of the asker: no program is run, so no right to run any is needed."""

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from stoker_plugins import child
from stoker_plugins.asking import Question
from stoker_plugins.discovery import InstalledPlugin
from stoker_sidecar.linux.confinement import Confinement
from stoker_sidecar.linux.landlock import TcpAccess

_ROUNDS = 100  # of ending what plug-ins left: a process that forks faster than it is killed meets its limit of CPU
_MOST_LEFT = 256  # of a round: the last number that was read may be cut


class Forks:
    """Forks the asker for one plug-in after the other. ``keep_from``: descriptors that are no plug-in's business."""

    def __init__(self, keep_from: Collection[int]) -> None:
        self._keep_from = tuple(keep_from)

    def start(self, plugin: InstalledPlugin, question: Question, answer: int) -> int:
        """Start the process of a plug-in: a StartPlugin. Raises OSError."""
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            for descriptor in self._keep_from:
                os.close(descriptor)
            _look_nowhere()
            # A room of its own within the asker's: it reaches neither the asker nor what another plug-in has left.
            Confinement().begin(no_tcp=TcpAccess.BIND | TcpAccess.CONNECT)
            child.tell(plugin.name, plugin.value, question, answer)
        finally:
            os._exit(1)


class LeftProcesses:
    """The children of this process: what plug-ins started in sessions of their own has become that, see subreapers.

    The kernel's list is opened at once, so that a confined process can read it; it stays empty where the kernel has
    none (CONFIG_PROC_CHILDREN). Raises OSError.
    """

    def __init__(self) -> None:
        path = f"/proc/self/task/{os.getpid()}/children"
        self.descriptor = os.open(path if Path(path).exists() else os.devnull, os.O_RDONLY)

    def end(self) -> None:
        """Kill them all."""
        for _ in range(_ROUNDS):
            os.lseek(self.descriptor, 0, os.SEEK_SET)
            pids = [int(word) for word in os.read(self.descriptor, 4096).split()[:_MOST_LEFT]]
            if not pids:
                return
            for pid in pids:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def _look_nowhere() -> None:
    """Give standard input, output and error to nobody: what a plug-in prints is no answer, and no log of ours."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
