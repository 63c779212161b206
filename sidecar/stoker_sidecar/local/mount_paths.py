"""Where the cache, the sockets and the notes of one mount lie. Without models: unmounting waits for no import."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker_api.mount_places import FIGURES_SOCKET, MOUNT_SPEC
from stoker_sidecar.version.layout import CachePaths, DatasetPaths
from stoker_sidecar.wire.report_folders import REPORTS, SOCKET_NAME

# The only dataset of a mount, whose folder is named after the source already.
UID = "source"


@dataclass(frozen=True)
class HomePaths:
    """Paths of what stays on the disk for one source, mounted or not."""

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
        """Return the folder of root's FUSE and overlay mounts, which are bound to where the user wants them."""
        return self.folder / "mnt"

    @property
    def metadata(self) -> Path:
        """Return the folder of root's metadata layers of overlays."""
        return self.folder / "metadata"

    @property
    def mount_table(self) -> Path:
        """Return the file of what is mounted, for an agent that is started again."""
        return self.folder / "mounts.json"

    @property
    def history(self) -> Path:
        """Return the file of what was tuned, and of what came of it."""
        return self.folder / "tuning-history.db"

    @property
    def lock(self) -> Path:
        """Return the file that is locked while a keeper works here; it holds where that mounted."""
        return self.folder / "lock"

    @property
    def log(self) -> Path:
        """Return the file of what the processes of the last mount said."""
        return self.folder / "log"


@dataclass(frozen=True)
class RunPaths:
    """What lives as long as one mount. In a folder of short name: a socket's path has 107 bytes at most."""

    folder: Path

    @property
    def keeper_socket(self) -> Path:
        """Return the socket where the keeper listens; see keeper/settings.py."""
        return self.folder / "keeper.sock"

    @property
    def fetcher_socket(self) -> Path:
        """Return the socket where the fetcher listens."""
        return self.folder / "fetcher.sock"

    @property
    def spec(self) -> Path:
        """Return the file of what this mount should be."""
        return self.folder / MOUNT_SPEC

    @property
    def figures_socket(self) -> Path:
        """Return the socket where the agent says who reads the mount."""
        return self.folder / FIGURES_SOCKET

    @property
    def reports(self) -> Path:
        """Return the folder of the folder of ``report_socket``, as on nodes, where each pod has one."""
        return self.folder / REPORTS

    @property
    def report_socket(self) -> Path:
        """Return the socket to which who reads the mount may say what it does."""
        return self.reports / UID / SOCKET_NAME

    @property
    def listener_socket(self) -> Path:
        """Return the socket where the report listener tells what was said; see keeper/settings.py."""
        return self.folder / "reports.sock"

    @property
    def report(self) -> Path:
        """Return the file of how far it is."""
        return self.folder / "report.json"


def default_cache(environment: Mapping[str, str], uid: int) -> Path:
    """Return where people expect a program's cache: root's in /var, a user's in their own folder."""
    if uid == 0:
        return Path("/var/cache/stoker")
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME") or "~").expanduser() / ".cache")
    return Path(base) / "stoker"


def run_paths(runs: Path, home: HomePaths) -> RunPaths:
    """Return the paths of a home's mount."""
    return RunPaths(runs / hashlib.sha256(os.fsencode(home.folder)).hexdigest()[:12])
