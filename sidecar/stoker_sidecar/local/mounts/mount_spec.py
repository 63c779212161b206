"""The specification of one mount, which the command passes to its agent."""

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from stoker_api.datasets.dataset_source import Source
from stoker_api.meta import Model, ObjectMeta
from stoker_sidecar.local.mounts.mount_paths import UID, HomePaths
from stoker_sidecar.store.core.location import S3Location, parse_location
from stoker_sidecar.wire.config.disk_floor import DiskFloor, Floor

if TYPE_CHECKING:
    from stoker_api.node_caches.nodecache import NodeCache

NAMESPACE = "mount"
# Left free of the user's disk: no kubelet watches it.
FLOOR = DiskFloor(Floor(share=0.05), Floor(share=0.05))


class MountSpec(Model):
    """The specification of one mount: its source, its folder, and how much is fetched and cached.

    ``folder``: where to mount, absolute. ``home``: folder of what stays on the disk.
    ``warm_paths``: what is fetched where it is ``eager``, in this order; empty: everything.
    ``tuning``: file of the rules in force, absolute; None: the built-in ones. ``tuned``: False for no rules at all.
    ``plugins``: names of the framework plug-ins that are asked. ``observe``: look at who
    reads it. ``sampling``: in which order it is read, as JSON; empty: not known. ``memory_names``, ``memory_bytes``:
    keep names, and so many bytes of contents, in memory.
    ``pages``: bring what was fetched into memory once. ``cpus``: of what fetches; a list, Auto or All.
    ``scratch_bytes``: size of a writable layer over the files; 0: read-only.
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
    plugins: tuple[str, ...] = ()
    observe: bool = False
    sampling: str = ""
    memory_names: bool = False
    memory_bytes: int | None = None
    pages: bool = False
    cpus: str = "Auto"
    last_files: bool = True
    scratch_bytes: int = 0

    @property
    def pod(self) -> str:
        """Return the mount point, which replaces a pod's name."""
        return str(self.folder).lstrip("/")

    @property
    def pins(self) -> bool:
        """Return True if something is pinned in memory. The mounting user sets the amount, not an administrator."""
        return self.memory_names or bool(self.memory_bytes)

    @property
    def order_plugin(self) -> str:
        """Return the name of the order plug-in of its sampling, or an empty string."""
        if not self.sampling:
            return ""
        from stoker_api.jobs.sampling import parse_sampling_text  # with all orders, which most mounts do not need

        return parse_sampling_text(self.sampling).plan().plugin or ""

    def plan(self, version: str) -> "NodeCache":
        """Return the plan that an operator would make for this node.

        ``version`` is empty until listed; then nothing is fetched yet.
        """
        # Imported late, because the command never calls this. The models take a tenth of its imports' CPU.
        from stoker_api.node_caches.node_dataset import NodeDataset
        from stoker_api.node_caches.nodecache import NodeCache, NodeCacheSpec

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


def home_paths(cache: Path, source: Source) -> HomePaths:
    """Return the paths of a source. Each source has a folder in the cache folder, without shared files, quota or lock.

    The folder's name is readable.
    """
    location = parse_location(source.uri)
    plain = f"{location.bucket}/{location.prefix}" if isinstance(location, S3Location) else location.path.name
    same = [plain if isinstance(location, S3Location) else str(location.path), source.endpoint or ""]
    same += [*source.include, "but not", *source.exclude]
    digest = hashlib.sha256(json.dumps(same).encode()).hexdigest()[:10]
    readable = re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-")[:50]
    return HomePaths(cache / f"{readable}-{digest}".lstrip("-"))
