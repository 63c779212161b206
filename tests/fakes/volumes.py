"""A node in memory for the CSI publisher.

Plan, cache disk, mounts and keeper obey and record their requests.
"""

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker_api.datasets.dataset_source import Source
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_sidecar.errors import KeeperUnavailable, MountError
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.volumes.core.publish import PublishRequest, VersionKey, VersionOnDisk

UID = "8f2c"
DIGEST = "d1" * 32
KUBELET = Path("/kubelet")


def node_dataset(**fields: object) -> NodeDataset:
    """Make ``vision/imagenet`` as the operator would plan it."""
    base = {"namespace": "vision", "name": "imagenet", "uid": UID, "version": DIGEST, "source": Source(uri="s3://b/p/")}
    return NodeDataset.model_validate(base | fields)


def dataset_status(**fields: object) -> NodeDatasetStatus:
    """Make a status with the node's progress of it."""
    return NodeDatasetStatus.model_validate({"namespace": "vision", "name": "imagenet", "uid": UID} | fields)


def publish_request(pod: str = "trainer-0", **fields: Any) -> PublishRequest:
    """Make the request for an inline volume of a pod in namespace ``vision``."""
    values: dict[str, Any] = {
        "volume_id": f"csi-{pod}",
        "target": KUBELET / "pods" / pod / "mount",
        "dataset_namespace": "vision",
        "dataset": "imagenet",
        "pod_namespace": "vision",
        "pod": pod,
        "pod_uid": f"uid-{pod}",
        "ephemeral": True,
    }
    return PublishRequest(**values | fields)


@dataclass
class Clock:
    """A clock that advances only on request."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakePlan:
    """A plan in memory with a ``script``: the event at each wait, in order. Then the clock jumps to the deadline.

    ``kept`` has the versions that the fetcher has confirmed to keep. None means all requested ones.
    """

    clock: Clock
    datasets: dict[tuple[str, str], NodeDataset] = field(default_factory=dict)
    statuses: dict[str, NodeDatasetStatus] = field(default_factory=dict)
    script: list[object] = field(default_factory=list)
    kept: set[VersionKey] | None = None

    def find(self, namespace: str, name: str) -> NodeDataset | None:
        return self.datasets.get((namespace, name))

    def status_of(self, uid: str) -> NodeDatasetStatus | None:
        return self.statuses.get(uid)

    def keeps(self, uid: str, digest: str) -> bool:
        return self.kept is None or (uid, digest) in self.kept

    async def wait_change(self, deadline: float) -> None:
        if self.script:
            step = self.script.pop(0)
            if callable(step):
                step()
        else:
            self.clock.now = deadline

    def add(self, dataset: NodeDataset) -> None:
        self.datasets[(dataset.namespace, dataset.name)] = dataset


@dataclass
class FakeVersions:
    """The cache disk."""

    versions: dict[tuple[str, str], VersionOnDisk] = field(default_factory=dict)

    def find(self, uid: str, digest: str) -> VersionOnDisk | None:
        return self.versions.get((uid, digest))

    def add(self, *, complete: bool, uid: str = UID, digest: str = DIGEST) -> VersionOnDisk:
        folder = Path("/cache/datasets") / uid / "versions" / digest
        self.versions[(uid, digest)] = VersionOnDisk(folder, files=3, bytes=300, complete=complete)
        return self.versions[(uid, digest)]


@dataclass
class FakeKeeper:
    """Serves at once. ``served`` has the running servers."""

    served: dict[tuple[str, str], Path] = field(default_factory=dict)
    refuses: bool = False

    async def serve(self, uid: str, digest: str, manifest: Path, version_dir: Path, mountpoint: Path) -> None:
        if self.refuses:
            raise KeeperUnavailable("the keeper refused 'serve': no /dev/fuse")
        self.served[(uid, digest)] = mountpoint

    async def release(self, uid: str, digest: str) -> None:
        self.served.pop((uid, digest), None)


@dataclass
class FakeOverlays:
    """Overlays in memory: ``begin`` requests a layer, and the test adds to ``ready`` when it is built.

    ``shown`` has the current mounts.
    """

    ready: set[VersionKey] = field(default_factory=set)
    begun: list[VersionKey] = field(default_factory=list)
    shown: dict[VersionKey, tuple[Path, Path]] = field(default_factory=dict)
    renewed: list[VersionKey] = field(default_factory=list)
    refuses: bool = False

    def is_ready(self, version: VersionKey) -> bool:
        return version in self.ready

    def begin(self, version: VersionKey, manifest: Path) -> None:
        self.begun.append(version)

    def drop(self, version: VersionKey) -> None:
        self.ready.discard(version)

    def distrust(self, version: VersionKey, why: str) -> None:
        self.ready.discard(version)

    def built(self) -> tuple[VersionKey, ...]:
        return tuple(self.ready)

    async def clear_drafts(self) -> None:
        return

    def show(self, version: VersionKey, paths: VersionPaths, fuse: Path) -> Path:
        if self.refuses or version not in self.ready:
            raise MountError(22, "mounting the overlay: Invalid argument")
        self.shown[version] = (paths.tree, fuse)
        return Path("/mnt") / version[0] / f"{version[1]}.overlay"

    def renew(self, version: VersionKey) -> None:
        self.renewed.append(version)

    def hide(self, version: VersionKey) -> None:
        self.shown.pop(version, None)

    def leftovers(self, used: frozenset[VersionKey]) -> tuple[VersionKey, ...]:
        return tuple(self.shown.keys() - used)


@dataclass
class FakeMounts:
    """The kernel's mounts in memory, with ``stacks``: sources by target, bottom first."""

    stacks: dict[Path, list[Path]] = field(default_factory=dict)
    dead: set[Path] = field(default_factory=set)
    followed: list[str] = field(default_factory=list)
    refuses: bool = False
    refuses_over_dead: bool = False
    refuses_layers: bool = False  # overlays of native mounts
    code: int = errno.EPERM  # of refusals
    old_modes: set[str] = field(default_factory=set)  # of older layers that pods still use
    read_only: set[Path] = field(default_factory=set)  # targets that cannot be made writable

    def bind(self, source: Path, target: Path, root: Path | None = None, scratch: Path | None = None) -> None:
        over_dead = self.refuses_over_dead and target in self.dead
        if self.refuses or over_dead or (self.refuses_layers and scratch is not None):
            raise MountError(self.code, f"showing {source} at {target}: {os.strerror(self.code)}")
        self.stacks.setdefault(target, []).append(source)
        if scratch is not None:
            self.read_only.add(target)
        self.dead.discard(target)

    def bind_writable(self, source: Path, target: Path) -> None:
        self.bind(source, target)

    def unmount_all(self, target: Path) -> int:
        self.dead.discard(target)
        return len(self.stacks.pop(target, []))

    def layers(self, target: Path) -> list[Path]:
        return self.stacks.get(target, [])

    def show_in_pod(self, pod_uid: str, target: Path) -> None:
        self.followed.append(pod_uid)

    def old_modes_in_pod(self, pod_uid: str, target: Path) -> frozenset[str]:
        return frozenset(self.old_modes)

    def is_dead(self, target: Path) -> bool:
        return target in self.dead
