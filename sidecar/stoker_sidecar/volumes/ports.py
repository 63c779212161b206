"""What the publisher needs of the rest of the node: small protocols, so that it runs in tests with no node."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from stoker_api.nodecache import NodeDataset, NodeDatasetStatus
from stoker_sidecar.volumes.core.mount_plan import Version
from stoker_sidecar.volumes.core.publish import Published, VersionOnDisk


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

    def show_in_pod(self, pod_uid: str, target: Path) -> None:
        """Show the top layer of ``target`` in the pod's containers that still see an older one, where that is possible."""

    def is_dead(self, target: Path) -> bool:
        """Whether the top layer has lost the FUSE server that it needs."""


class Overlays(Protocol):
    """Metadata layers and overlay mounts of versions. ``show``, ``hide`` and ``leftovers`` block and raise MountError."""

    def is_ready(self, version: Version) -> bool:
        """Whether the metadata layer is built and usable."""

    def begin(self, version: Version, manifest: Path) -> None:
        """Build the layer in the background, once."""

    def drop(self, version: Version) -> None:
        """Remove the layer in the background."""

    def distrust(self, version: Version, why: str) -> None:
        """``is_ready`` says no from now on."""

    def built(self) -> tuple[Version, ...]:
        """Versions that have a layer."""

    async def clear_drafts(self) -> None:
        """Delete what killed builders left."""

    def show(self, version: Version, tree: Path, fuse: Path) -> Path:
        """Mount the overlay over a served FUSE mount; where. Idempotent."""

    def hide(self, version: Version) -> None:
        """Take it off; idempotent."""

    def leftovers(self, used: frozenset[Version]) -> tuple[Version, ...]:
        """Versions that the node still mounts as FUSE or overlay, but neither in ``used`` nor seen by a pod."""


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
