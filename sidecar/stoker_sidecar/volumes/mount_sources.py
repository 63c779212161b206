"""What the pods' targets show: a version's folder, FUSE mount or overlay, each for as long as a volume needs it."""

import asyncio
import logging
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from stoker_api.dataset import MountMode
from stoker_sidecar.errors import KeeperUnavailable, MountError, VolumeCode, VolumeError
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.volumes.core.publish import (
    VersionKey,
    VersionOnDisk,
    layer_is_spent,
    needs_layer,
    users,
    wanted_mode,
)
from stoker_sidecar.volumes.mount_table import MountTable
from stoker_sidecar.volumes.synchronization import KeyedLocks

log = logging.getLogger(__name__)


class FuseServing(Protocol):
    """Starts and ends FUSE servers, as the keeper does. Both calls are idempotent and raise KeeperUnavailable."""

    async def serve(self, uid: str, digest: str, manifest: Path, version_dir: Path, mountpoint: Path) -> None:
        """Return when the version is mounted at ``mountpoint`` and answers."""

    async def release(self, uid: str, digest: str) -> None:
        """Return when the version is unmounted and its server has ended."""


class OverlayMounts(Protocol):
    """Metadata layers and overlay mounts of versions.

    ``show``, ``renew``, ``hide`` and ``leftovers`` block and raise MountError.
    """

    def is_ready(self, version: VersionKey) -> bool:
        """Return whether the metadata layer is built and usable."""

    def begin(self, version: VersionKey, manifest: Path) -> None:
        """Build the layer in the background, once."""

    def drop(self, version: VersionKey) -> None:
        """Remove the layer in the background."""

    def distrust(self, version: VersionKey, why: str) -> None:
        """Let ``is_ready`` say no from now on."""

    def built(self) -> tuple[VersionKey, ...]:
        """Return the versions that have a layer."""

    async def clear_drafts(self) -> None:
        """Delete what killed builders left."""

    def show(self, version: VersionKey, paths: VersionPaths, fuse: Path) -> Path:
        """Mount the overlay over a served FUSE mount, once; return where."""

    def renew(self, version: VersionKey) -> None:
        """Have files that have arrived since they were first opened be read where they lie."""

    def hide(self, version: VersionKey) -> None:
        """Take it off; nothing to do is no error."""

    def leftovers(self, used: frozenset[VersionKey]) -> tuple[VersionKey, ...]:
        """Return versions that the node still mounts as FUSE or overlay, but neither in ``used`` nor seen by a pod."""


class MountSource(NamedTuple):
    """A folder to bind, and how it is read.

    ``root``: the folder of the fetcher's that it lies beneath; None for one of our own.
    """

    mode: MountMode
    folder: Path
    root: Path | None = None


class MountSources:
    """The folders that volumes of a version show: its tree, its FUSE mount, its overlay.

    ``modes``: what the node can mount.

    A version's lock (``hold``) is to be held while a source is opened and recorded, or given up, so that the last
    user's release and a new user's opening cannot cross.
    """

    def __init__(
        self,
        keeper: FuseServing,
        overlays: OverlayMounts,
        table: MountTable,
        mount_root: Path,
        modes: Collection[MountMode],
    ) -> None:
        self._keeper = keeper
        self._overlays = overlays
        self._table = table
        self._mount_root = mount_root
        self._modes = modes
        self._locks = KeyedLocks()

    def hold(self, version: VersionKey) -> AbstractAsyncContextManager[None]:
        """Return a context in which nobody else opens or gives up this version's sources."""
        return self._locks.hold(version)

    def best(self, version: VersionKey, on_disk: VersionOnDisk) -> MountMode:
        """Return the best mode for the version now."""
        return wanted_mode(on_disk, self._modes, layer_ready=self._overlays.is_ready(version))

    def prepare(self, version: VersionKey, on_disk: VersionOnDisk) -> None:
        """Begin to build what makes a better mode possible."""
        if needs_layer(on_disk, self._modes, layer_ready=self._overlays.is_ready(version)):
            self._overlays.begin(version, VersionPaths(on_disk.folder).manifest)

    async def open(self, version: VersionKey, folder: Path, mode: MountMode) -> MountSource:
        """Start what ``mode`` needs, or FUSE where the overlay is refused.

        ``folder``: where the version lies. Raises VolumeError.
        """
        paths = VersionPaths(folder)
        if mode is MountMode.NATIVE:
            return MountSource(mode, paths.tree, paths.root)
        fuse = await self._serve(version, paths)
        if mode is MountMode.OVERLAY:
            try:
                return MountSource(mode, await asyncio.to_thread(self._overlays.show, version, paths, fuse))
            except MountError as error:
                self._overlays.distrust(version, error.message)
        return MountSource(MountMode.FUSE, fuse)

    async def renew(self, version: VersionKey) -> None:
        """Renew the version's overlay, if a volume has one: see ``OverlayRenewal``. Raises MountError."""
        async with self.hold(version):
            if any(record.overlay for record in users(self._table.all(), version)):
                await asyncio.to_thread(self._overlays.renew, version)

    async def release_unused(self, version: VersionKey) -> None:
        """End what no volume of the table needs any more."""
        left = users(self._table.all(), version)
        if not any(record.overlay for record in left):
            await self._hide(version)
        if not any(record.fuse for record in left):
            await self._release(version)

    async def clear_leftovers(self) -> None:
        """End what a killed agent left: FUSE servers and overlays that no volume needs, unfinished layers."""
        await self._overlays.clear_drafts()
        used = frozenset((record.uid, record.version) for record in self._table.all() if record.fuse)
        for version in await asyncio.to_thread(self._overlays.leftovers, used):
            async with self.hold(version):
                await self.release_unused(version)

    async def built(self) -> tuple[VersionKey, ...]:
        """Return the versions that have a metadata layer."""
        return await asyncio.to_thread(self._overlays.built)

    async def drop_spent_layer(self, version: VersionKey, on_disk: VersionOnDisk | None) -> None:
        """Remove a version's metadata layer when it is of no more use."""
        async with self.hold(version):
            if layer_is_spent(self._table.all(), version, on_disk):
                self._overlays.drop(version)

    async def _serve(self, version: VersionKey, paths: VersionPaths) -> Path:
        uid, digest = version
        mountpoint = self._mount_root / uid / digest
        try:
            await self._keeper.serve(uid, digest, paths.manifest, paths.folder, mountpoint)
        except KeeperUnavailable as error:
            what = f"serving version {digest[:12]} of dataset {uid}"
            raise VolumeError(VolumeCode.INTERNAL, f"{what} failed: {error}") from error
        return mountpoint

    async def _hide(self, version: VersionKey) -> None:
        try:
            await asyncio.to_thread(self._overlays.hide, version)
        except MountError as error:
            # The volume is gone for the pod, which is what was asked; the agent's next start takes it off.
            log.warning("the overlay of dataset %s, version %s, was not taken off: %s", *version, error)

    async def _release(self, version: VersionKey) -> None:
        try:
            await self._keeper.release(*version)
        except KeeperUnavailable as error:
            # As above; the next user of the version takes the server over.
            log.warning("the FUSE server of dataset %s, version %s, was not ended: %s", *version, error)
