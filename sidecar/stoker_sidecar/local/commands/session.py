"""Starts the processes of one mount from its specification."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from stoker_api.meta import MOST_BYTES
from stoker_sidecar.linux import libc
from stoker_sidecar.local.mounts.mount_paths import HomePaths, RunPaths
from stoker_sidecar.local.mounts.mount_spec import FLOOR, MountSpec
from stoker_sidecar.local.mounts.mounted import KEEPER, FoundMount
from stoker_sidecar.store.core.location import FolderLocation, parse_location

_AGENT = ("-m", "stoker_sidecar.local.agent.mount_agent")
_FLOOR_OPTIONS = (f"--floor-bytes={FLOOR.bytes}", f"--floor-inodes={FLOOR.inodes}")
_FETCHER = ("-m", "stoker_sidecar.fetcher.main")
# The mounting user sends requests with their own rights, and may use local servers.
_ANY_ENDPOINT = ("--endpoint-networks", "0.0.0.0/0,::/0")


@dataclass(frozen=True)
class MountSession:
    """One mount's processes, a keeper and its children. ``spec`` is their specification."""

    spec: MountSpec
    run: RunPaths

    @property
    def home(self) -> HomePaths:
        """Return the paths of its persistent data."""
        return HomePaths(self.spec.home)

    @property
    def mounted(self) -> FoundMount:
        """Return the mount in the form for ending it."""
        return FoundMount(self.spec.folder, self.home, self.run)

    def start(self, lock: int, environment: Mapping[str, str], *, with_parent: bool) -> "subprocess.Popen[bytes]":
        """Start the keeper, which holds ``lock`` from now on.

        With ``with_parent``, it ends cleanly when this process ends. Raises OSError.
        """
        home, run = self.home, self.run
        shutil.rmtree(run.folder, ignore_errors=True)
        run.folder.mkdir(mode=0o700, parents=True)
        home.mount_table.unlink(missing_ok=True)
        text = self.spec.model_dump_json(by_alias=True)
        for note in (run.spec, home.lock):
            note.write_text(text)
        with home.log.open("wb") as log:
            return subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={**environment, "PYTHONUTF8": "1"},  # names of files are UTF-8, whatever the locale
                pass_fds=(lock,),
                start_new_session=True,  # Ctrl-C is for the command, which ends the keeper cleanly
                preexec_fn=_end_with_parent if with_parent else None,  # noqa: PLW1509  one thread
            )

    def _command(self) -> list[str]:
        home = self.home
        # A user without privileges mounts at the folder itself, not below a Stoker folder.
        mount_root = home.mounts if os.geteuid() == 0 else self.spec.folder.parent
        command = [sys.executable, *KEEPER, "--run-dir", str(self.run.folder), "--run-as", ""]
        command += ["--mount-root", str(mount_root), "--cache-root", str(home.cache)]
        command += ["--agent-command", shlex.join([sys.executable, *_AGENT])]
        fetcher = [sys.executable, *_FETCHER, *_FLOOR_OPTIONS, *_ANY_ENDPOINT, *self._host_folder()]
        fetcher += [f"--cpus={self.spec.cpus}"]
        # Only root's mounts become native.
        fetcher += ["--last-files=" + ("Auto" if self.spec.last_files and os.geteuid() == 0 else "Off")]
        fetcher += [f"--pinned-memory={MOST_BYTES}"] if self.spec.pins else []
        command += ["--fetcher-command", shlex.join(fetcher)]
        command += ["--pinned-memory", str(MOST_BYTES)] if self.spec.pins else []
        command += ["--allow-other", "yes"] if self.spec.allow_other else []
        command += ["--confine", "Off"]  # what it reads and writes is one person's own, wherever that lies (ADR 15)
        command += ["--observe", "Auto" if self.spec.observe else "Off"]
        # Who is not looked at is not listened to either: what is said of an order is held against what is read.
        command += ["--reports", "On", "--reports-root", str(self.run.reports)] if self.spec.observe else []
        if self.spec.plugins or self.spec.order_plugin:  # they run as the mounting user, who installed them
            command += ["--plugins", ",".join(self.spec.plugins), "--plugins-run-as", ""]
            command += ["--order-plugins", self.spec.order_plugin]
        return [*command, "--", "--run-dir", str(self.run.folder)]

    def _host_folder(self) -> list[str]:
        """Return the option that limits reads to the mounted folder, wherever links lead."""
        location = parse_location(self.spec.source.uri)
        return ["--host-folder", str(location.path)] if isinstance(location, FolderLocation) else []


def _end_with_parent() -> None:
    """End the child, in which this runs, when its parent ends."""
    libc.end_with_parent(signal.SIGTERM)
