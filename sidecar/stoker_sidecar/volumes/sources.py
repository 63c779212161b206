"""What lies under the pods' targets: a version's folder, its FUSE mount, its overlay; each as long as a volume needs it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from stoker_api.dataset import MountMode
from stoker_sidecar.errors import KeeperUnavailable, MountError, VolumeCode, VolumeError
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.volumes.core.mount_plan import Version, layer_is_spent, needs_layer, users, wanted_mode
from stoker_sidecar.volumes.core.publish import VersionOnDisk
from stoker_sidecar.volumes.locks import KeyedLocks
from stoker_sidecar.volumes.ports import Keeper, MountTable, Overlays

log = logging.getLogger(__name__)


class Source(NamedTuple):
    """A folder to bind, and what it is."""

    mode: MountMode
    folder: Path


class Sources:
    """By version. ``modes``: what the node can mount.

    A version's lock (``hold``) is to be held while a source is asked for and recorded, or given up, so that the last
    user's release and a new user's wish cannot cross.
    """

    def __init__(
        self, keeper: Keeper, overlays: Overlays, table: MountTable, mount_root: Path, modes: Collection[MountMode]
    ) -> None:
        self._keeper = keeper
        self._overlays = overlays
        self._table = table
        self._mount_root = mount_root
        self._modes = modes
        self._locks = KeyedLocks()

    @asynccontextmanager
    async def hold(self, version: Version) -> AsyncIterator[None]:
        """No one else takes or gives up this version's sources meanwhile."""
        async with self._locks.hold(version):
            yield

    def best(self, version: Version, on_disk: VersionOnDisk) -> MountMode:
        """The best mode for the version now."""
        return wanted_mode(on_disk, self._modes, layer_ready=self._overlays.is_ready(version))

    def prepare(self, version: Version, on_disk: VersionOnDisk) -> None:
        """Begin what makes a better mode possible."""
        if needs_layer(on_disk, self._modes, layer_ready=self._overlays.is_ready(version)):
            self._overlays.begin(version, VersionPaths(on_disk.folder).manifest)

    async def open(self, version: Version, folder: Path, mode: MountMode) -> Source:
        """Start what the mode needs; FUSE where the overlay is refused. ``folder``: where the version lies. Raises VolumeError."""
        paths = VersionPaths(folder)
        if mode is MountMode.NATIVE:
            return Source(mode, paths.tree)
        fuse = await self._serve(version, paths)
        if mode is MountMode.OVERLAY:
            try:
                return Source(mode, await asyncio.to_thread(self._overlays.show, version, paths.tree, fuse))
            except MountError as error:
                self._overlays.distrust(version, error.message)
        return Source(MountMode.FUSE, fuse)

    async def release_unused(self, version: Version) -> None:
        """End what no volume of the table needs any more."""
        left = users(self._table.all(), version)
        if not any(record.overlay for record in left):
            await self._hide(version)
        if not any(record.fuse for record in left):
            await self._release(version)

    async def clear_leftovers(self) -> None:
        """After a start: end FUSE servers and overlays that no volume needs, as a killed agent leaves them; and unfinished layers."""
        await self._overlays.clear_drafts()
        used = frozenset((record.uid, record.version) for record in self._table.all() if record.fuse)
        for version in await asyncio.to_thread(self._overlays.leftovers, used):
            async with self.hold(version):
                await self.release_unused(version)

    async def built(self) -> tuple[Version, ...]:
        """Versions that have a metadata layer."""
        return await asyncio.to_thread(self._overlays.built)

    async def drop_spent_layer(self, version: Version, on_disk: VersionOnDisk | None) -> None:
        """Remove a version's metadata layer when it is of no more use."""
        async with self.hold(version):
            if layer_is_spent(self._table.all(), version, on_disk):
                self._overlays.drop(version)

    async def _serve(self, version: Version, paths: VersionPaths) -> Path:
        uid, digest = version
        mountpoint = self._mount_root / uid / digest
        try:
            await self._keeper.serve(uid, digest, paths.manifest, paths.folder, mountpoint)
        except KeeperUnavailable as error:
            what = f"serving version {digest[:12]} of dataset {uid}"
            raise VolumeError(VolumeCode.INTERNAL, f"{what} failed: {error}") from error
        return mountpoint

    async def _hide(self, version: Version) -> None:
        try:
            await asyncio.to_thread(self._overlays.hide, version)
        except MountError as error:
            # The volume is gone for the pod, which is what was asked; the agent's next start takes it off.
            log.warning("the overlay of dataset %s, version %s, was not taken off: %s", *version, error)

    async def _release(self, version: Version) -> None:
        try:
            await self._keeper.release(*version)
        except KeeperUnavailable as error:
            # As above; the next user of the version takes the server over.
            log.warning("the FUSE server of dataset %s, version %s, was not ended: %s", *version, error)
