"""Runs a real keeper for a test, and leaves neither a process nor a mount behind."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stoker_sidecar.linux.mounts import mountinfo
from stoker_sidecar.linux.mounts.mount_calls import detach
from tests.support.processes import is_running
from tests.support.versions import VersionFolder
from tests.support.waiting import SECONDS_OF_PROCESSES, wait_until

SECONDS = SECONDS_OF_PROCESSES
UID = "uid-1"


def mounts_below(folder: Path) -> list[mountinfo.Mount]:
    """List the current mounts at or under ``folder``."""
    return list(mountinfo.below(mountinfo.read(), str(folder)))


def clear_mounts(folder: Path) -> None:
    """Unmount the remains of a failed test."""
    for mount in reversed(mounts_below(folder)):
        detach(mount.target)


class Keeper:
    """A context manager.

    ``folder`` is for sockets, mounts and log. Servers run as root, because the tests' Python belongs to root.
    """

    def __init__(
        self,
        folder: Path,
        *,
        agent: str = "",
        fetcher: str = "",
        options: Sequence[str] = (),
        node: Path | None = None,
        identity: str = "",
        within: Sequence[str] = (),
    ) -> None:
        """Describe a keeper. Keepers of one node's pods share the folder ``node``, and each has an ``identity``.

        ``within`` is a command prefix.
        """
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.run_dir = folder / "run"
        self.mount_root = (node or folder) / "mnt"
        if node is not None:
            options = [*options, "--state-dir", str(node / "state"), "--identity", identity or folder.name]
        self.log = folder / "keeper.log"
        command = [*within, sys.executable, "-m", "stoker_sidecar.keeper.main", "--run-dir", str(self.run_dir)]
        command += ["--mount-root", str(self.mount_root), "--cache-root", str(folder / "cache"), "--run-as", ""]
        self._command = [*command, "--agent-command", agent, "--fetcher-command", fetcher, *options]
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Keeper":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        clear_mounts(self.folder)

    def start(self) -> None:
        """Start it and wait until its socket answers."""
        self.launch()
        wait_until(self._answers)

    def launch(self) -> None:
        """Start it without a wait: its turn may come later."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    @property
    def serves(self) -> bool:
        """Whether its turn has come."""
        return self._answers()

    def logged(self, text: str) -> bool:
        """Return True if its log has this text."""
        return text in self.log.read_text()

    def _answers(self) -> bool:
        if self.process is None or self.process.poll() is not None:
            raise RuntimeError(f"the keeper ended: {self.log.read_text()}")
        try:
            return bool(self.call(op="list")["ok"])
        except (FileNotFoundError, ConnectionRefusedError):
            return False

    @property
    def pid(self) -> int:
        """The PID of the keeper itself. Raises RuntimeError."""
        if self.process is None:
            raise RuntimeError("the keeper does not run")
        return self.process.pid

    def stop(self) -> int:
        """Stop it as the kubelet does. Return the exit code."""
        if self.process is None:
            raise RuntimeError("the keeper does not run")
        self.process.terminate()
        return self.process.wait(SECONDS)

    def kill(self) -> None:
        """Kill it as the OOM killer does. Wait until its children are gone as well, because they hold the mounts."""
        if self.process is None:
            return
        children = self.pids() if self.process.poll() is None and self._answers() else []
        self.process.kill()
        self.process.wait()
        wait_until(lambda: not any(is_running(pid) for pid in children))
        self.process = None

    def pids(self) -> list[int]:
        """Return the PIDs of all its children."""
        reply = self.call(op="list")
        return [row["pid"] for row in reply["servers"] + reply["children"] if row["pid"] is not None]

    def call(self, **request: Any) -> dict[str, Any]:
        """Send one request on the keeper's socket and return the reply."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(SECONDS + 10)  # the keeper's own deadline for a server is shorter
            connection.connect(str(self.run_dir / "keeper.sock"))
            connection.sendall(json.dumps(request).encode() + b"\n")
            reply: dict[str, Any] = json.loads(connection.makefile().readline())
        return reply

    def mountpoint(self, version: VersionFolder) -> Path:
        """Return the path of a mount by ``serve``."""
        return self.mount_root / UID / version.info.digest

    def serve(self, version: VersionFolder) -> Path:
        """Mount a version. Return the path. Raises RuntimeError with the keeper's message."""
        mountpoint = self.mountpoint(version)
        reply = self.call(
            op="serve",
            uid=UID,
            digest=version.info.digest,
            manifest=str(version.manifest),
            version_dir=str(version.folder),
            mountpoint=str(mountpoint),
        )
        if not reply["ok"]:
            raise RuntimeError(reply["message"])
        return mountpoint

    def release(self, version: VersionFolder) -> dict[str, Any]:
        """Unmount it."""
        return self.call(op="release", uid=UID, digest=version.info.digest)

    def server(self) -> dict[str, Any]:
        """Return the row of the only server."""
        (row,) = self.call(op="list")["servers"]
        return dict(row)

    def zygote(self) -> int:
        """Return the PID of the process that forks servers, when it exists."""
        wait_until(lambda: self._child("fuse zygote") is not None)
        pid = self._child("fuse zygote")
        return -1 if pid is None else pid

    def _child(self, name: str) -> int | None:
        return next((row["pid"] for row in self.call(op="list")["children"] if row["name"] == name), None)

    def kill_server(self) -> None:
        """Kill the only FUSE server with SIGKILL. Return when another answers."""
        before = self.server()
        os.kill(before["pid"], signal.SIGKILL)
        wait_until(lambda: self.server()["restarts"] > before["restarts"] and self.server()["ready"])
