"""Shows a version at the user's folder: as root by every way that nodes have, else through the FUSE helper."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from stoker_api.dataset import MountMode
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.errors import MountError
from stoker_sidecar.local.mount_spec import NAMESPACE, UID, Wish
from stoker_sidecar.local.paths import Home, Run
from stoker_sidecar.volumes.assembly import VolumePaths, node_volumes
from stoker_sidecar.volumes.core.publish import PublishRequest
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.keeper_client import KeeperClient


class Exhibit(Protocol):
    """One version at one folder."""

    @property
    def mode(self) -> MountMode | None:
        """How it is read now; None: nothing is mounted."""

    def held(self) -> tuple[str, ...]:
        """Versions that must stay on the disk."""

    async def show(self, version: str) -> None:
        """Return when it is mounted, now or before. Raises VolumeError, MountError and KeeperUnavailable."""

    async def improve(self) -> None:
        """Swap the mount for a faster one whenever that becomes possible, until cancelled."""

    async def take_off(self) -> None:
        """Return when nothing is mounted but what the keeper mounted, which takes that away at its end. Raises VolumeError."""


class PublishedExhibit:
    """As root: the publisher of the CSI driver, with the user's folder as its only volume."""

    def __init__(self, wish: Wish, run: Run, plan: NodePlan) -> None:
        home = Home(wish.home)
        self._target = wish.folder
        paths = VolumePaths(home.mount_table, home.mounts, home.metadata, run.keeper_socket)
        self._volumes = node_volumes(paths, plan, CacheFolders([home.cache]), plan.changes, keep_targets=True)
        self._publisher = self._volumes.publisher
        self._request = PublishRequest(UID, wish.folder, NAMESPACE, wish.source.uri, NAMESPACE, "", "", ephemeral=True)

    @property
    def mode(self) -> MountMode | None:
        """As the publisher's row says."""
        return next((row.mode for row in self._publisher.rows()), None)

    def held(self) -> tuple[str, ...]:
        """The mounted version."""
        return self._volumes.mounted.held(UID)

    async def show(self, version: str) -> None:
        """The version is the plan's. Raises VolumeError."""
        await self._publisher.publish(self._request)

    async def improve(self) -> None:
        """Until cancelled."""
        await self._volumes.mounted.restore()
        await self._volumes.reconciler.run()

    async def take_off(self) -> None:
        """Raises VolumeError."""
        await self._publisher.unpublish(self._target)


class FuseExhibit:
    """As a user without privileges, who cannot bind: FUSE at the folder itself, for good."""

    def __init__(self, wish: Wish, run: Run, on_change: Callable[[], None]) -> None:
        self._folders = CacheFolders([Home(wish.home).cache])
        self._target: Path = wish.folder
        self._keeper = KeeperClient(run.keeper_socket)
        self._on_change = on_change
        self._version = ""

    @property
    def mode(self) -> MountMode | None:
        """FUSE or nothing."""
        return MountMode.FUSE if self._version else None

    def held(self) -> tuple[str, ...]:
        """The mounted version."""
        return (self._version,) if self._version else ()

    async def show(self, version: str) -> None:
        """Raises MountError and KeeperUnavailable."""
        on_disk = await asyncio.to_thread(self._folders.find, UID, version)
        if on_disk is None:
            raise MountError(0, f"the file list of version {version[:12]} is not on this disk any more: mount again")
        manifest = on_disk.folder / "manifest.sqlite"
        await self._keeper.serve(UID, version, manifest, on_disk.folder, self._target)
        self._version = version
        self._on_change()

    async def improve(self) -> None:
        """There is nothing faster for a user who may not bind."""
        await asyncio.Event().wait()

    async def take_off(self) -> None:
        """All of it is the keeper's."""
