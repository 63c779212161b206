"""Runs `stoker mount` for a test as a person does, and leaves neither a process nor a mount behind."""

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

from stoker_sidecar.linux import mountinfo
from stoker_sidecar.local.mounted import all_mounted
from stoker_sidecar.local.report import Report, read_report
from tests.support.keeper import clear_mounts, mounts_below
from tests.support.s3 import CREDENTIALS, S3Server
from tests.support.waiting import wait_until

SECONDS = 60.0
_MARK = "MOUNTED_BY_TEST"  # in the environment of all that a StokerMount starts, with its folder
KEYS = {
    "AWS_ACCESS_KEY_ID": CREDENTIALS.access_key_id,
    "AWS_SECRET_ACCESS_KEY": CREDENTIALS.secret_access_key,
    # No machine's role, and no one's files, have a say.
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}


class StokerMount:
    """The command `stoker mount` of one user, with cache, run folder and mount point in one folder.

    A context manager. ``uid``: the user's. A user other than root may read what only root may, as the tests' Python may
    lie in root's own folder.
    """

    def __init__(self, server: S3Server, uid: int = 0, **environment: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="stoker-mount-"))  # short: sockets lie in it
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
        """Return the command line by which this machine's user runs ``command``."""
        user = ["--reuid", str(self._uid), "--regid", str(self._uid), "--clear-groups"]
        reading = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
        return ["setpriv", *user, *reading, *command] if self._uid else [*command]

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run `stoker WORDS` to its end."""
        return subprocess.run(
            self.command(*words), env=self._environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    def mount(self, *options: str, url: str = "s3://data/set") -> str:
        """Mount at ``data``; what was said. Raises RuntimeError with it when that failed."""
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
        """Start `stoker WORDS` in the background; killed at the end."""
        process = subprocess.Popen(self.command(*words), env=self._environment, stderr=subprocess.PIPE, text=True)
        self._started.append(process)
        return process

    def log(self) -> str:
        """Return the log of the processes behind the mounts."""
        return "".join(path.read_text() for path in self.cache.glob("*/log"))

    def mode(self) -> str:
        """Return the type of the file system that one sees at ``data``; empty: nothing is mounted."""
        layers = mountinfo.layers(mountinfo.read(), str(self.data))
        return layers[-1].fs_type if layers else ""

    def leftovers(self) -> list[str]:
        """List mounts, processes and sockets of this machine that are still there."""
        return [
            *(mount.target for mount in mounts_below(self.folder)),
            *map(str, self.processes()),
            *map(str, self.runs.glob("*/*")),
        ]

    def report(self) -> Report:
        """Return what the one mount says of itself."""
        (mount,) = all_mounted(self.runs)
        return read_report(mount.run.report)

    def top(self) -> list[dict[str, Any]]:
        """Return the rows of `stoker top --mount`."""
        rows: list[dict[str, Any]] = json.loads(self.run("top", "--mount", str(self.data), "-o", "json").stdout)
        return rows

    def processes(self) -> list[int]:
        """List all processes of the keepers' sessions, whether the keepers still answer or not.

        Plug-ins have an environment of their own, and are known by the session alone.
        """
        mark = f"{_MARK}={self.folder}".encode()
        sessions = {_session(pid) for pid in _pids() if mark in _environment(pid)}
        sessions -= {None, os.getsid(0)}  # that of the tests and of the commands that they run
        return [pid for pid in _pids() if _session(pid) in sessions]

    def kill(self) -> None:
        """Kill every process behind the mounts with SIGKILL, those that are forked meanwhile as well."""

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
    """Return the process's session; None when it has ended, also when no one has waited for it yet."""
    try:
        state, _, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else int(session)


def _environment(pid: int) -> list[bytes]:
    """Return the process's variables, ``NAME=value``; those of one that has ended are none."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
