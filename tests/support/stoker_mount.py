"""Runs `stoker mount` for a test as a user does, and leaves neither a process nor a mount behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from stoker_sidecar.linux.mounts import mountinfo, target_mounts
from stoker_sidecar.local.mounts.mounted import all_mounted
from stoker_sidecar.local.reports.report import Report, read_report
from tests.support.keeper import clear_mounts, mounts_below
from tests.support.s3 import CREDENTIALS, S3Server
from tests.support.waiting import wait_until

SECONDS = 60.0
_AGENT = "stoker_sidecar.local.agent.mount_agent"
_MARK = "MOUNTED_BY_TEST"  # in the environment of all processes that a StokerMount starts, with its folder
KEYS = {
    "AWS_ACCESS_KEY_ID": CREDENTIALS.access_key_id,
    "AWS_SECRET_ACCESS_KEY": CREDENTIALS.secret_access_key,
    # Neither the machine's role nor a user's files have an effect.
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}


class StokerMount:
    """The command `stoker mount` of one user, with cache, run folder and mount point in one folder.

    A context manager. ``uid`` is the user's. A user other than root may read root's files, because the tests' Python
    may be in root's own folder.
    """

    def __init__(self, server: S3Server, uid: int = 0, **environment: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="stoker-mount-"))  # short, because it contains sockets
        self.data = self.folder / "data"
        self.cache = self.folder / "cache"
        self.runs = self.folder / "run"
        self._uid = uid
        self._started: list[subprocess.Popen[str]] = []
        self._environment: Mapping[str, str] = {
            **os.environ,
            **KEYS,
            "AWS_ENDPOINT_URL": server.endpoint,
            _MARK: str(self.folder),
            **environment,
        }

    def __enter__(self) -> Self:
        self.data.mkdir()
        for folder in (self.folder, self.data):
            os.chown(folder, self._uid, self._uid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._started:
            process.kill()
            process.communicate()
        self.kill()
        clear_mounts(self.folder)
        shutil.rmtree(self.folder)

    def command(self, *words: str) -> list[str]:
        """Return the command line of `stoker WORDS` with this machine's folders."""
        folders = ["--run-dir", str(self.runs)] + (["--cache", str(self.cache)] if words[0] == "mount" else [])
        return self.as_user(sys.executable, "-c", "from stoker_cli.entry import main; main()", *words, *folders)

    def as_user(self, *command: str) -> list[str]:
        """Return the command line with which this machine's user runs ``command``."""
        user = ["--reuid", str(self._uid), "--regid", str(self._uid), "--clear-groups"]
        reading = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
        return ["setpriv", *user, *reading, *command] if self._uid else [*command]

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run `stoker WORDS` to its end."""
        return subprocess.run(
            self.command(*words), env=self._environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    def mount(self, *options: str, url: str = "s3://data/set") -> str:
        """Mount at ``data``. Return the output. Raises RuntimeError with it on failure."""
        done = self.run("mount", url, str(self.data), *options)
        if done.returncode:
            raise RuntimeError(done.stderr + self.log())
        return done.stdout + done.stderr

    def umount(self) -> None:
        """Unmount the data. Raises RuntimeError with the log."""
        done = self.run("umount", str(self.data))
        if done.returncode:
            raise RuntimeError(done.stderr + self.log())

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start `stoker WORDS` in the background. It is killed at the end."""
        process = subprocess.Popen(self.command(*words), env=self._environment, stderr=subprocess.PIPE, text=True)
        self._started.append(process)
        return process

    def log(self) -> str:
        """Return the log of the processes behind the mounts."""
        return "".join(path.read_text() for path in self.cache.glob("*/log"))

    def mode(self) -> str:
        """Return the type of the file system at ``data``, or native. Empty without a mount."""
        layers = mountinfo.layers(mountinfo.read(), str(self.data))
        if layers and target_mounts.is_read_only_overlay(layers[-1]):
            return "native"
        return layers[-1].fs_type if layers else ""

    def leftovers(self) -> list[str]:
        """List the remaining mounts, processes and sockets of this machine."""
        return [
            *(mount.target for mount in mounts_below(self.folder)),
            *map(str, self.processes()),
            *map(str, self.runs.glob("*/*")),
        ]

    def report(self) -> Report:
        """Return the status of the only mount."""
        (mount,) = all_mounted(self.runs)
        return read_report(mount.run.report)

    def top(self) -> list[dict[str, Any]]:
        """Return the rows of `stoker top --mount`."""
        rows: list[dict[str, Any]] = json.loads(self.run("top", "--mount", str(self.data), "-o", "json").stdout)
        return rows

    def processes(self) -> list[int]:
        """List all processes of the keepers' sessions, whether the keepers still answer or not.

        Plug-ins have a different environment, so only the session identifies them.
        """
        mark = f"{_MARK}={self.folder}".encode()
        sessions = {_session(pid) for pid in _pids() if mark in _environment(pid)}
        sessions -= {None, os.getsid(0)}  # that of the tests and of the commands that they run
        return [pid for pid in _pids() if _session(pid) in sessions]

    def commands(self) -> str:
        """Return the command lines of the keepers' sessions. A word ends with a NUL."""
        return "\n".join(_read(pid, "cmdline") for pid in self.processes())

    def agents(self) -> set[int]:
        """Return the processes of the mounts' agents.

        A child of an agent has the same command line until it executes its program, so it does not count.
        """
        found = {pid for pid in self.processes() if _AGENT in _read(pid, "cmdline").split("\0")}
        return {pid for pid in found if _parent(pid) not in found}

    def kill(self) -> None:
        """Kill every process behind the mounts with SIGKILL, including processes forked during the loop."""

        def are_gone() -> bool:
            processes = self.processes()
            for pid in processes:
                with suppress(ProcessLookupError):  # it ended with its parent
                    os.kill(pid, signal.SIGKILL)
            return not processes

        wait_until(are_gone, SECONDS)


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _session(pid: int) -> int | None:
    """Return the process's session. None if it has ended, even if it has not been reaped."""
    fields = _stat(pid)
    return int(fields[3]) if fields and fields[0] != "Z" else None


def _parent(pid: int) -> int | None:
    """Return the process's parent. None if it has ended."""
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name: the state, the parent, the group, the session, ..."""
    return _read(pid, "stat").rpartition(")")[2].split()


def _read(pid: int, name: str) -> str:
    """Return a file of the process in /proc. Empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _environment(pid: int) -> list[bytes]:
    """Return the process's variables, ``NAME=value``. An ended process has none."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
