"""Mounts a version at the user's folder: with all modes of a node for root, else through the FUSE helper."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.errors import MountError
from stoker_sidecar.local.mounts.mount_paths import UID, HomePaths, RunPaths
from stoker_sidecar.local.mounts.mount_spec import FLOOR, NAMESPACE, MountSpec
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.volumes.core.publish import PublishRequest, VersionKey
from stoker_sidecar.volumes.node_volumes import VolumePaths, node_volumes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.keeper_client import KeeperClient


class MountMethod(Protocol):
    """A method to mount one version at one folder."""

    @property
    def mode(self) -> MountMode | None:
        """The current mount mode; None: not mounted."""

    def held(self) -> tuple[str, ...]:
        """Return the versions that must stay on the disk."""

    def served(self) -> frozenset[VersionKey]:
        """Return the versions with a FUSE mount below the home's mount folder, whose settings root may change."""

    async def mount(self, version: str) -> None:
        """Return when the version is mounted. Raises VolumeError, MountError and KeeperUnavailable."""

    async def improve(self) -> None:
        """Swap the mount for a faster one whenever possible, until cancelled."""

    async def unmount(self) -> None:
        """Unmount all except the keeper's mounts, which it removes at its end. Raises VolumeError."""


class PublishedMount:
    """Root's method: the CSI driver's publisher, with the user's folder as its only volume."""

    def __init__(self, spec: MountSpec, run: RunPaths, plan: NodePlan) -> None:
        home = HomePaths(spec.home)
        paths = VolumePaths(home.mount_table, home.mounts, home.metadata, run.keeper_socket, (home.cache,))
        self._volumes = node_volumes(
            paths, plan, CacheFolders([home.cache]), plan.changes, keep_targets=True, floor=FLOOR
        )
        self._request = PublishRequest(
            *(UID, spec.folder, NAMESPACE, spec.source.uri, NAMESPACE, "", ""),
            ephemeral=False,
            scratch_bytes=spec.scratch_bytes,
        )

    @property
    def mode(self) -> MountMode | None:
        """The current mount mode, from the publisher's row."""
        return next((row.mode for row in self._volumes.publisher.rows()), None)

    def held(self) -> tuple[str, ...]:
        """Return the version that is mounted or about to be."""
        return self._volumes.publisher.held_versions().get(UID, ())

    def served(self) -> frozenset[VersionKey]:
        """Return the version while it is mounted by FUSE or as an overlay."""
        return self._volumes.mounted.served()

    async def mount(self, version: str) -> None:
        """Return when the plan's version is mounted. Raises VolumeError."""
        await self._volumes.publisher.publish(self._request)

    async def improve(self) -> None:
        """Remount dead mounts, then swap for a faster mount whenever possible, until cancelled."""
        await self._volumes.upkeep.restore()
        await self._volumes.keep()

    async def unmount(self) -> None:
        """Unmount the folder, which stays. Raises VolumeError."""
        await self._volumes.publisher.unpublish(self._request.target)


class UnprivilegedMount:
    """The method of a user without privileges, who cannot bind: FUSE at the folder itself, permanently."""

    def __init__(self, spec: MountSpec, run: RunPaths, on_change: Callable[[], None]) -> None:
        self._folders = CacheFolders([HomePaths(spec.home).cache])
        self._target = spec.folder
        self._keeper = KeeperClient(run.keeper_socket)
        self._on_change = on_change
        self._version = ""

    @property
    def mode(self) -> MountMode | None:
        """FUSE or nothing."""
        return MountMode.FUSE if self._version else None

    def held(self) -> tuple[str, ...]:
        """Return the mounted version."""
        return (self._version,) if self._version else ()

    def served(self) -> frozenset[VersionKey]:
        """Return nothing: /sys is root's."""
        return frozenset()

    async def mount(self, version: str) -> None:
        """Let the keeper serve the version. Raises MountError and KeeperUnavailable."""
        on_disk = await asyncio.to_thread(self._folders.find, UID, version)
        if on_disk is None:
            raise MountError(0, f"the file list of version {version[:12]} is not on this disk any more: mount again")
        manifest = VersionPaths(on_disk.folder).manifest
        await self._keeper.serve(UID, version, manifest, on_disk.folder, self._target)
        self._version = version
        self._on_change()

    async def improve(self) -> None:
        """Wait until cancelled: a user who cannot bind has no faster mode."""
        await asyncio.Event().wait()

    async def unmount(self) -> None:
        """Do nothing: the keeper owns the mount."""
