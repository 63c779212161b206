"""One mount as the command hands it to its agent: what it should be, and where its cache, sockets and notes lie."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker_api.dataset_source import Source
from stoker_api.meta import Model, ObjectMeta
from stoker_api.mount_figures import FIGURES_SOCKET, MOUNT_SPEC
from stoker_api.node_dataset import NodeDataset
from stoker_api.nodecache import NodeCache, NodeCacheSpec
from stoker_sidecar.store.core.location import S3Location, parse_location
from stoker_sidecar.version.layout import CachePaths, DatasetPaths
from stoker_sidecar.wire.disk_floor import DiskFloor, Floor
from stoker_sidecar.wire.report_folders import REPORTS, SOCKET_NAME

# The only dataset of a mount, whose folder is named after the source already.
UID = "source"
NAMESPACE = "mount"
# By which numbers are judged that are found, in seconds: the default, and what may be asked for.
WINDOW_SECONDS, LEAST_WINDOW, MOST_WINDOW = 10.0, 1.0, 600.0
# Left free of the user's disk: no kubelet watches it.
FLOOR = DiskFloor(Floor(share=0.05), Floor(share=0.05))


class MountSpec(Model):
    """What one mount should be: of which source, where, and how much of it is fetched and kept.

    ``folder``: where to mount, absolute. ``home``: folder of what stays on the disk.
    ``warm_paths``: what is fetched where it is ``eager``, in this order; empty: everything.
    ``tuning``: file of the rules in force, absolute; None: the built-in ones. ``tuned``: False for no rules at all.
    ``tuning_window``: seconds. ``plugins``: names of the framework plug-ins that are asked. ``observe``: look at who
    reads it. ``sampling``: in which order it is read, as JSON; empty: not known. ``memory_names``, ``memory_bytes``:
    keep names, and so many bytes of contents, in memory.
    ``pages``: bring what was fetched into memory once. ``cpus``: of what fetches; a list, Auto or All.
    ``last_files``: fetch these unasked where little is missing.
    ``listing_id``: list the source anew under this name, unless that was done; empty: mount ``version``, which is here.
    """

    source: Source
    folder: Path
    home: Path
    listing_id: str = ""
    version: str = ""
    eager: bool = False
    warm_paths: tuple[str, ...] = ()
    quota_bytes: int | None = None
    bytes_per_second: int | None = None
    allow_other: bool = False
    tuning: Path | None = None
    tuned: bool = True
    tuning_window: float = WINDOW_SECONDS
    plugins: tuple[str, ...] = ()
    observe: bool = False
    sampling: str = ""
    memory_names: bool = False
    memory_bytes: int | None = None
    pages: bool = False
    cpus: str = "Auto"
    last_files: bool = True

    @property
    def pod(self) -> str:
        """Return what stands in the place of a pod's name: where it is mounted."""
        return str(self.folder).lstrip("/")

    @property
    def pins(self) -> bool:
        """Return whether something of it stays in memory; how much is for who mounts to say, and no administrator."""
        return self.memory_names or bool(self.memory_bytes)

    @property
    def order_plugin(self) -> str:
        """Return the name of the order plug-in that its sampling asks; empty: none."""
        if not self.sampling:
            return ""
        from stoker_api.sampling import parse_sampling_text  # with all orders, which most mounts do without

        return parse_sampling_text(self.sampling).plan().plugin or ""

    def plan(self, version: str) -> NodeCache:
        """Return what an operator would ask of this node.

        ``version``: empty until listed; then nothing is fetched yet.
        """
        dataset = NodeDataset(
            namespace=NAMESPACE,
            name=self.source.uri,
            uid=UID,
            source=self.source,
            listing_id=self.listing_id,
            version=version,
            eager=self.eager,
            warm_paths=self.warm_paths,
            bytes_per_second=self.bytes_per_second,
            quota_bytes=self.quota_bytes,
            pages=NAMESPACE if self.pages else "",
            memory_names=self.memory_names,
            memory_bytes=self.memory_bytes,
        )
        return NodeCache(metadata=ObjectMeta(name="here", generation=1), spec=NodeCacheSpec(datasets=(dataset,)))


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


def home_paths(cache: Path, source: Source) -> HomePaths:
    """Return the paths of a source: a folder each in the cache folder, so that two never share files, quota or lock.

    A person can read the folder's name.
    """
    location = parse_location(source.uri)
    plain = f"{location.bucket}/{location.prefix}" if isinstance(location, S3Location) else location.path.name
    same = [plain if isinstance(location, S3Location) else str(location.path), source.endpoint or ""]
    same += [*source.include, "but not", *source.exclude]
    digest = hashlib.sha256(json.dumps(same).encode()).hexdigest()[:10]
    readable = re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-")[:50]
    return HomePaths(cache / f"{readable}-{digest}".lstrip("-"))


def run_paths(runs: Path, home: HomePaths) -> RunPaths:
    """Return the paths of a home's mount."""
    return RunPaths(runs / hashlib.sha256(os.fsencode(home.folder)).hexdigest()[:12])
