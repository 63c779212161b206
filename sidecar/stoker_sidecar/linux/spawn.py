"""Starts one process with a given user, descriptors and limits, bound to the keeper's lifetime."""

import os
import resource
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from stoker_sidecar.linux import libc


@dataclass(frozen=True)
class Start:
    """A child's start parameters.

    ``uid`` None means the keeper's user; otherwise the child gets that user and group, without other groups. ``fds``
    are descriptors by the flag that passes their numbers. ``environment`` None means the keeper's.
    """

    command: Sequence[str]
    uid: int | None = None
    fds: Mapping[str, int] = field(default_factory=dict)
    environment: Mapping[str, str] | None = None


Spawn = Callable[[Start], int]
_HEARTBEAT = "--heartbeat-fd"


def with_heartbeat(start: Start, fd: int) -> Start:
    """Return it with the child's end of the line to the keeper (see wire/heartbeat.py). Pure."""
    return replace(start, fds={**start.fds, _HEARTBEAT: fd})


def with_numbers(arguments: Sequence[str], fds: Mapping[str, int]) -> list[str]:
    """Return the arguments plus a flag for each descriptor. Pure."""
    return [*arguments, *(word for flag, number in fds.items() for word in (flag, str(number)))]


def execute(start: Start) -> int:
    """Run it as a new program. Return its pid. Raises OSError and subprocess.SubprocessError."""

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
    # The reaper waits for it. Otherwise Popen would warn about a child whose end it never saw.
    process.returncode = 0
    return process.pid


def is_stopped(pid: int) -> bool:
    """Return True if this child was stopped (SIGSTOP). The event stays available to the reaper."""
    try:
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def end(pid: int | None, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    if pid is not None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


# Enough for all connections and files of one process. Some programs iterate over all numbers below the limit.
_MOST = 65_536


def raise_open_files() -> None:
    """Raise the soft limit to the hard one, up to 65,536. Container runtimes start processes with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
