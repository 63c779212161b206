"""The processes of a sidecar without a cluster: a keeper that starts agent, fetcher and FUSE servers."""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bench.errors import BenchError
from bench.measure import tree, wait_until
from stoker_sidecar.linux.mounts import mountinfo
from stoker_sidecar.linux.mounts.mount_calls import detach
from stoker_sidecar.wire.config.folders import REPORTS

_START_SECONDS = 120.0  # imports take one CPU second, and 20 s if other work uses the cores
_REPLY_SECONDS = 60.0


@dataclass(frozen=True)
class Switches:
    """Mechanisms that are on in every real sidecar. A benchmark may turn one off to show its value."""

    overlay: bool = True
    observe: bool = True
    readahead: bool = True
    last_files: bool = True
    reports: bool = False  # accept the reports of pods
    read_through: int = 0  # bytes per version of files that are read but not cached; 0 uses the fetcher's default
    networks: str = "127.0.0.0/8,::1/128"  # allowed hosts of stores: those of the bench are on loopback

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of keeper, agent and FUSE servers."""
        return {
            "STOKER_OVERLAY": "Auto" if self.overlay else "Off",
            "STOKER_OBSERVE": "Auto" if self.observe else "Off",
            "STOKER_ENDPOINT_NETWORKS": self.networks,
            # No kubelet watches this disk, and other data may fill much of it. The value applies to all processes: an
            # agent with a higher floor than the fetcher's makes no overlay of cached files.
            "STOKER_FLOOR_BYTES": "2%",
        }

    @property
    def fetcher_command(self) -> list[str]:
        """The command line with which the keeper starts the fetcher."""
        options = [f"--read-through={self.read_through}"] if self.read_through else []
        options += [] if self.readahead else ["--readahead=0"]
        options += [] if self.last_files else ["--last-files=Off"]
        return [sys.executable, "-m", "stoker_sidecar.fetcher.main", *options]


class Sidecar:
    """A running sidecar, as a context manager. Its processes can be inspected and killed.

    ``folder`` is on the cache disk, has a short name, and has no mounts below it at the end. ``environment`` has
    variables for all processes. ``within`` is a command prefix that starts the sidecar elsewhere.
    """

    def __init__(
        self,
        folder: Path,
        agent_options: Sequence[str],
        switches: Switches,
        environment: Mapping[str, str],
        within: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.run_dir = folder / "run"
        self.cache_root = folder / "cache"
        self.mount_root = folder / "mnt"
        self._agent = shlex.join([sys.executable, "-m", "stoker_sidecar.agent", *agent_options])
        self._switches = switches
        self._environment = environment
        self._within = within
        self._log = folder / "keeper.log"
        self._keeper: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [*self._within, sys.executable, "-m", "stoker_sidecar.keeper.main", "--run-as", ""]
        command += ["--run-dir", str(self.run_dir)]
        command += ["--mount-root", str(self.mount_root), "--cache-root", str(self.cache_root)]
        if self._switches.reports:
            command += ["--reports=On", f"--reports-root={self.folder / 'state' / REPORTS}"]
        command += ["--agent-command", self._agent]
        command += ["--fetcher-command", shlex.join(self._switches.fetcher_command)]
        environment: Mapping[str, str] = {**os.environ, **self._switches.variables, **self._environment}
        with self._log.open("wb") as out:
            self._keeper = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
        try:
            wait_until("the fetcher to answer", self._answers, _START_SECONDS)
        except BaseException:  # an interrupt during the start: without __enter__, no __exit__ would stop it
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._keeper is not None:
            _end(self._keeper)
        for mount in reversed(mountinfo.below(mountinfo.read(), str(self.folder))):
            detach(mount.target)
        shutil.rmtree(self.folder)

    @property
    def fetcher_socket(self) -> Path:
        """The unix socket of the fetcher."""
        return self.run_dir / "fetcher.sock"

    @property
    def pid(self) -> int:
        """The keeper's PID. All other processes descend from it."""
        assert self._keeper is not None, "used inside the context"
        return self._keeper.pid

    def pids(self) -> dict[str, int]:
        """Return {name: pid} of all processes: keeper, agent, fetcher, every ``fs server`` and every ``worker``."""
        reply = self._keeper_call(op="list")
        rows = {str(row["name"]): row["pid"] for row in reply["children"]}
        rows |= {f"fs server {number}": row["pid"] for number, row in enumerate(reply["servers"], 1)}
        named = {"keeper": self.pid} | {name: pid for name, pid in rows.items() if pid is not None}
        workers = sorted(tree(named["fetcher"]) - {named["fetcher"]}) if "fetcher" in named else []
        return named | {f"worker {number}": pid for number, pid in enumerate(workers, 1)}

    def serving(self) -> bool:
        """Return True if every FUSE mount has a server that answers."""
        return all(row["ready"] for row in self._keeper_call(op="list")["servers"])

    def kill(self, name: str) -> None:
        """Send SIGKILL to one of ``pids``. Return when another process has replaced it. Raises BenchError."""
        before = self.pids()[name]
        os.kill(before, signal.SIGKILL)
        wait_until(f"another {name}", lambda: self.pids().get(name) not in (None, before), _START_SECONDS)
        if name == "fetcher":
            wait_until("the fetcher to answer", self._answers, _START_SECONDS)
        wait_until("the FUSE servers to answer", self.serving, _START_SECONDS)

    def log(self) -> str:
        """Return the logs of all its processes so far."""
        return self._log.read_text()

    def _answers(self) -> bool:
        if self._keeper is None or self._keeper.poll() is not None:
            raise BenchError(f"the keeper ended: {self.log()}")
        with socket.socket(socket.AF_UNIX) as connection:
            return connection.connect_ex(str(self.fetcher_socket)) == 0

    def _keeper_call(self, **request: Any) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_REPLY_SECONDS)
            connection.connect(str(self.run_dir / "keeper.sock"))
            connection.sendall(json.dumps(request).encode() + b"\n")
            reply: dict[str, Any] = json.loads(connection.makefile().readline())
        if not reply["ok"]:
            raise BenchError(f"the keeper refused {request['op']}: {reply['message']}")
        return reply


def _end(keeper: subprocess.Popen[bytes]) -> None:
    """Stop a keeper as the kubelet does. The keeper's session contains all of its children."""
    keeper.terminate()
    try:
        keeper.wait(_REPLY_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(keeper.pid, signal.SIGKILL)
        keeper.wait()
