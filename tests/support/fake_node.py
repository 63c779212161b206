"""A publisher with a node in memory, for tests of its decisions."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.errors import VolumeError
from stoker_sidecar.volumes.core.publish import PublishRequest
from stoker_sidecar.volumes.mount_sources import MountSources
from stoker_sidecar.volumes.mount_table import MountTable, UnknownMounts
from stoker_sidecar.volumes.mount_upkeep import MountUpkeep
from stoker_sidecar.volumes.mounted_volumes import MountedVolumes
from stoker_sidecar.volumes.mounter import Mounter
from stoker_sidecar.volumes.publisher import Publisher
from stoker_sidecar.volumes.user_namespaces import UserNamespaces
from tests.fakes.volumes import (
    DIGEST,
    UID,
    Clock,
    FakeKeeper,
    FakeMounts,
    FakeOverlays,
    FakePlan,
    FakeVersions,
    node_dataset,
    publish_request,
)

TREE = Path(f"/cache/datasets/{UID}/versions/{DIGEST}/tree")
FUSE = Path(f"/mnt/{UID}/{DIGEST}")
OVERLAY = Path(f"/mnt/{UID}/{DIGEST}.overlay")
VERSION = (UID, DIGEST)


@dataclass
class FakeNode:
    """A publisher and its collaborators. ``restart`` makes a new agent on the same node."""

    folder: Path
    clock: Clock = field(default_factory=Clock)
    versions: FakeVersions = field(default_factory=FakeVersions)
    keeper: FakeKeeper = field(default_factory=FakeKeeper)
    overlays: FakeOverlays = field(default_factory=FakeOverlays)
    mounts: FakeMounts = field(default_factory=FakeMounts)
    modes: tuple[MountMode, ...] = (MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE)
    user_namespaces: UserNamespaces = field(default_factory=UserNamespaces)
    changes: int = 0

    def __post_init__(self) -> None:
        self.plan = FakePlan(self.clock)
        self.restart()

    def restart(self, unknown: UnknownMounts | None = None) -> None:
        table = MountTable(self.folder / "mounts.json")
        sources = MountSources(self.keeper, self.overlays, table, Path("/mnt"), self.modes, self.user_namespaces)
        mounter, find = Mounter(self.mounts), self.versions.find
        self.mounted = MountedVolumes(table, sources, mounter, find, self._changed, unknown)
        self.upkeep = MountUpkeep(self.mounted.bindings, sources)
        self.publisher = Publisher(self.plan, self.mounted, on_change=self._changed, clock=self.clock, wait_seconds=50)

    def _changed(self) -> None:
        self.changes += 1

    def request(self, pod: str = "trainer-0", **fields: object) -> PublishRequest:
        return publish_request(pod, target=self.folder / "pods" / pod / "mount", **fields)

    def planned(self, *, complete: bool) -> None:
        self.plan.add(node_dataset())
        self.versions.add(complete=complete)

    async def published(self, *, complete: bool, **fields: Any) -> PublishRequest:
        """Give the pod a volume of the one Dataset, and return the request of it."""
        self.planned(complete=complete)
        await self.publisher.publish(request := self.request(**fields))
        return request

    def stack(self, pod: str = "trainer-0") -> list[Path]:
        return self.mounts.layers(self.request(pod).target)


async def refused(call: Callable[[], Awaitable[object]]) -> VolumeError:
    with pytest.raises(VolumeError) as caught:
        await call()
    return caught.value
