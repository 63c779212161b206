"""Starts one process: as which user, with which descriptors, bound to the life of the keeper."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker_sidecar.linux import libc


@dataclass(frozen=True)
class Start:
    """How one child is started. ``uid`` None: as the keeper itself; else that user and group, with no other groups.

    ``fds``: descriptors that it is given, by the flag that tells it their numbers. ``environment``: its own; None: the
    keeper's.
    """

    command: Sequence[str]
    uid: int | None = None
    fds: Mapping[str, int] = field(default_factory=dict)
    environment: Mapping[str, str] | None = None


Spawn = Callable[[Start], int]
_HEARTBEAT = "--heartbeat-fd"


def with_heartbeat(start: Start, fd: int) -> Start:
    """Return the same, with its end of the line to the keeper (see wire/heartbeat.py). Pure."""
    return replace(start, fds={**start.fds, _HEARTBEAT: fd})


def with_numbers(arguments: Sequence[str], fds: Mapping[str, int]) -> list[str]:
    """Return the arguments, and a flag for each descriptor. Pure."""
    return [*arguments, *(word for flag, number in fds.items() for word in (flag, str(number)))]


def execute(start: Start) -> int:
    """Run it as a new program; returns its pid. Raises OSError and subprocess.SubprocessError."""

    def prepare() -> None:
        libc.end_with_parent()  # a killed keeper must not leave processes that hold mounts (outside a PID namespace)
        if start.uid is not None:
            libc.forgo_new_privileges()

    process = subprocess.Popen(
        with_numbers(start.command, start.fds),
        stdin=subprocess.DEVNULL,
        pass_fds=tuple(start.fds.values()),
        preexec_fn=prepare,  # noqa: PLW1509  the keeper has one thread
        user=start.uid,
        group=start.uid,
        extra_groups=None if start.uid is None else [],
        env=start.environment,
    )
    # The reaper waits for it; Popen's own bookkeeping would complain about a child that it never saw end.
    process.returncode = 0
    return process.pid


def is_stopped(pid: int) -> bool:
    """Tell whether someone has stopped this child (SIGSTOP), and leave the news for whoever waits for it."""
    try:
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def end(pid: int | None, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone already."""
    if pid is not None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
