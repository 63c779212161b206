"""Runs programs, starts the cluster's daemons, and finds every process of a cluster."""

import contextlib
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.errors import CommandFailedError, NotReadyError

# Each daemon has these in its environment, which is permanent: no stale PID file can point at a foreign process.
CLUSTER_MARK = "STOKER_E2E_OWNER"
COMPONENT_MARK = "STOKER_E2E_COMPONENT"
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Owned:
    """A running process that a cluster started."""

    pid: int
    component: str
    is_node_init: bool


def run(
    *argv: str | Path, stdin: bytes | Path | None = None, env: Mapping[str, str] | None = None, check: bool = True
) -> str:
    """Run a program with bytes or a file as input. Return its standard output. Raises CommandFailedError."""
    words = [str(word) for word in argv]
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(stdin.open("rb")) if isinstance(stdin, Path) else subprocess.PIPE
        child = subprocess.Popen(
            words,
            stdin=stream,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
        )
        output, errors = child.communicate(stdin if isinstance(stdin, bytes) else None)
    if check and child.returncode:
        raise CommandFailedError(words, child.returncode, (output + errors).decode(errors="replace"))
    return output.decode(errors="replace")


def start_daemon(
    cluster: str, component: str, argv: list[str], log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program that outlives this process, marked as `component` of `cluster`, with output to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, **(environment or {}), CLUSTER_MARK: cluster, COMPONENT_MARK: component}
    with log.open("ab") as out:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, start_new_session=True, cwd="/"
        )


def owned_by(cluster: str, proc: Path = Path("/proc")) -> list[Owned]:
    """Return the processes that `cluster` started, in any run."""
    mark = f"{CLUSTER_MARK}={cluster}".encode()
    found = []
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            if mark in environment:
                found.append(_describe(int(folder.name), environment, (folder / "status").read_text()))
        except OSError:
            continue  # it exited during the read
    return found


def _describe(pid: int, environment: list[bytes], status: str) -> Owned:
    prefix = COMPONENT_MARK.encode() + b"="
    component = next((item[len(prefix) :].decode() for item in environment if item.startswith(prefix)), "")
    numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return Owned(pid, component, is_node_init=len(numbers) > 1 and numbers[-1] == "1")


def kill(pids: list[int], seconds: float = 20.0) -> None:
    """Kill these PIDs and wait until they are gone. Raises NotReadyError."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    wait_for("the killed processes to be gone", lambda: not any(_alive(pid) for pid in pids), seconds)


def _alive(pid: int) -> bool:
    """Return True if `pid` runs. Reap a zombie child, which counts as gone."""
    with contextlib.suppress(ChildProcessError):  # not a child: its own parent reaps it
        os.waitpid(pid, os.WNOHANG)
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def tail(log: Path, lines: int = 25) -> str:
    """Return the last lines of a log, or a sentence if it does not exist."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(nothing was logged)"


def wait_for(
    what: str,
    condition: Callable[[], bool],
    seconds: float,
    log: Path | None = None,
    alive: Callable[[], bool] = lambda: True,
    *,
    poll_seconds: float = POLL_SECONDS,
) -> None:
    """Wait until `condition` holds. Raises NotReadyError with the end of `log` on timeout or if `alive` fails."""
    deadline = time.monotonic() + seconds
    while not condition():
        if not alive():
            raise NotReadyError(f"Waited for {what}, but the process ended", log, tail(log) if log else "")
        if time.monotonic() > deadline:
            raise NotReadyError(f"Waited {seconds:.0f} s for {what} in vain", log, tail(log) if log else "")
        time.sleep(poll_seconds)  # processes and logs have no change notification


def answers(url: str, *, refusal_counts: bool = False) -> bool:
    """Return True if an HTTP server at `url` answers with success, or with any status if `refusal_counts`."""
    try:
        urllib.request.urlopen(url, timeout=1).close()
    except urllib.error.HTTPError:
        return refusal_counts
    except OSError:
        return False
    return True
