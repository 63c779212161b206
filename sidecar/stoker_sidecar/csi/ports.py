"""What the publisher needs of the rest of the node: small protocols, so that it runs in tests with no node."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from stoker_api.nodecache import NodeDataset, NodeDatasetStatus
from stoker_sidecar.core.publish import Published, VersionOnDisk


class Plan(Protocol):
    """What the operator wants of this node (NodeCache.spec) and how far the node is."""

    def find(self, namespace: str, name: str) -> NodeDataset | None:
        """The dataset's entry in the plan."""

    def status_of(self, uid: str) -> NodeDatasetStatus | None:
        """How far this node is with it."""

    async def wait_change(self, deadline: float) -> None:
        """Return when plan or status changed since the last look, or at ``deadline`` (seconds of the publisher's clock)."""


class Keeper(Protocol):
    """Starts and ends FUSE servers. Both calls are idempotent and raise KeeperUnavailable."""

    async def serve(self, uid: str, digest: str, manifest: Path, version_dir: Path, mountpoint: Path) -> None:
        """Return when the version is mounted at ``mountpoint`` and answers."""

    async def release(self, uid: str, digest: str) -> None:
        """Return when the version is unmounted and its server has ended."""


class Mounts(Protocol):
    """mount(2) and umount(2). All block, so the publisher calls them in threads; they raise MountError."""

    def bind(self, source: Path, target: Path) -> None:
        """Show the folder ``source`` read-only at ``target``, on top of what is there."""

    def unmount_all(self, target: Path) -> int:
        """Take every layer off ``target`` lazily; how many there were."""

    def layers(self, target: Path) -> Sequence[object]:
        """What is mounted at exactly ``target``, bottom first."""

    def is_dead(self, target: Path) -> bool:
        """Whether the top layer is a FUSE file system with no server."""


class Versions(Protocol):
    """The versions on the cache disk."""

    def find(self, uid: str, digest: str) -> VersionOnDisk | None:
        """A version whose manifest is here. Blocks on the disk."""


class MountTable(Protocol):
    """The published volumes, remembered across restarts, by target."""

    def get(self, target: Path) -> Published | None:
        """The volume that is published at ``target``."""

    def all(self) -> tuple[Published, ...]:
        """Every published volume."""

    def put(self, record: Published) -> None:
        """Remember; durable when this returns."""

    def remove(self, target: Path) -> None:
        """Forget; no error when it is not there."""
