"""Paths of a mount's cache, sockets and state. It has no models, so that unmounting imports little."""

import argparse
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker_api.node_caches.mount_places import FIGURES_SOCKET, MOUNT_SPEC, default_runs
from stoker_sidecar.version.layout import CachePaths, DatasetPaths
from stoker_sidecar.wire.config.folders import REPORTS, SOCKET_NAME

# The UID of a mount's only dataset. Its parent folder is named after the source.
UID = "source"


@dataclass(frozen=True)
class HomePaths:
    """Paths of the persistent data of one source, mounted or not."""

    folder: Path

    @property
    def cache(self) -> Path:
        """Return the fetcher's cache folder."""
        return self.folder / "cache"

    @property
    def dataset(self) -> DatasetPaths:
        """Return the paths of the one dataset in it."""
        return CachePaths(self.cache).dataset(UID)

    @property
    def mounts(self) -> Path:
        """Return the folder of root's FUSE and overlay mounts, which are bound to the user's folder."""
        return self.folder / "mnt"

    @property
    def metadata(self) -> Path:
        """Return the folder of root's metadata layers of overlays."""
        return self.folder / "metadata"

    @property
    def mount_table(self) -> Path:
        """Return the file with the mounts, for a restarted agent."""
        return self.folder / "mounts.json"

    @property
    def history(self) -> Path:
        """Return the file with the tuning history."""
        return self.folder / "tuning-history.db"

    @property
    def lock(self) -> Path:
        """Return the lock file of a working keeper. It contains the spec of that mount."""
        return self.folder / "lock"

    @property
    def log(self) -> Path:
        """Return the log file of the last mount's processes."""
        return self.folder / "log"


@dataclass(frozen=True)
class RunPaths:
    """Paths that live as long as one mount. The folder's name is short: a socket's path has at most 107 bytes."""

    folder: Path

    @property
    def keeper_socket(self) -> Path:
        """Return the keeper's socket; see keeper/settings.py."""
        return self.folder / "keeper.sock"

    @property
    def fetcher_socket(self) -> Path:
        """Return the fetcher's socket."""
        return self.folder / "fetcher.sock"

    @property
    def spec(self) -> Path:
        """Return the file with this mount's spec."""
        return self.folder / MOUNT_SPEC

    @property
    def figures_socket(self) -> Path:
        """Return the agent's socket for figures."""
        return self.folder / FIGURES_SOCKET

    @property
    def reports(self) -> Path:
        """Return the parent of ``report_socket``'s folder, as on nodes, where each pod has a folder."""
        return self.folder / REPORTS

    @property
    def report_socket(self) -> Path:
        """Return the socket for reports of programs that read the mount."""
        return self.reports / UID / SOCKET_NAME

    @property
    def listener_socket(self) -> Path:
        """Return the report listener's socket for the agent; see keeper/settings.py."""
        return self.folder / "reports.sock"

    @property
    def report(self) -> Path:
        """Return the file with the mount's progress."""
        return self.folder / "report.json"


def default_cache(environment: Mapping[str, str], uid: int) -> Path:
    """Return the usual cache folder: root's in /var, a user's in the home folder."""
    if uid == 0:
        return Path("/var/cache/stoker")
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME") or "~").expanduser() / ".cache")
    return Path(base) / "stoker"


def run_paths(runs: Path, home: HomePaths) -> RunPaths:
    """Return the paths of a home's mount."""
    return RunPaths(runs / hashlib.sha256(os.fsencode(home.folder)).hexdigest()[:12])


def add_runs(parser: argparse.ArgumentParser, environment: Mapping[str, str], uid: int) -> None:
    """Add the option for the folder of all mounts."""
    runs = default_runs(environment, uid)
    parser.add_argument("--run-dir", type=Path, default=runs, help="folder of the sockets (%(default)s)")
