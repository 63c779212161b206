"""Puts layers on target paths and takes them off, and keeps a version's FUSE server as long as a layer needs it."""

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from stoker_api.dataset import MountMode
from stoker_sidecar.cache.layout import VersionPaths
from stoker_sidecar.core.publish import Published, VersionOnDisk
from stoker_sidecar.csi.locks import KeyedLocks
from stoker_sidecar.csi.ports import Keeper, Mounts, MountTable
from stoker_sidecar.errors import KeeperUnavailable, MountError, VolumeCode, VolumeError

log = logging.getLogger(__name__)

_A = TypeVar("_A", Path, Published)
_R = TypeVar("_R")


class Mounter:
    """Acts on one target at a time; the publisher sees to it that no two calls work on the same one.

    A version's lock is held while its FUSE server is asked for or given up, so that the last user's release and a new
    user's serve cannot cross. ``keep_targets``: target folders are someone's own and stay when nothing is mounted there.
    """

    def __init__(
        self, keeper: Keeper, mounts: Mounts, table: MountTable, mount_root: Path, *, keep_targets: bool = False
    ) -> None:
        self._keeper = keeper
        self._mounts = mounts
        self._table = table
        self._mount_root = mount_root
        self._keep_targets = keep_targets
        self._versions = KeyedLocks()
        self._writing = asyncio.Lock()

    async def mount(self, record: Published) -> None:
        """Mount where nothing of ours is known to be. Raises VolumeError, and then nothing is left behind."""
        target = record.request.target
        await self._do(self._mounts.unmount_all, target)
        try:
            await self._show(record)
        except VolumeError:
            await self.take_off(target)
            raise

    async def heal(self, record: Published, on_disk: VersionOnDisk) -> None:
        """Mount a known volume's version again, over the dead layer: on top of it, since only there running containers see it."""
        fresh = replace(record, folder=on_disk.folder, mode=on_disk.mode, fuse=on_disk.mode is MountMode.FUSE)
        try:
            await self._show(fresh)
        except VolumeError as error:
            log.warning(
                "volume %s: mounting over the dead layer failed (%s): it is taken off first",
                record.request.row_id,
                error,
            )
            await self._do(self._mounts.unmount_all, record.request.target)
            await self._show(fresh)

    async def promote(self, record: Published, on_disk: VersionOnDisk) -> None:
        """Lay the native tree over a FUSE mount. Files that are open go on through FUSE, so its server stays."""
        await self._do(self._mounts.bind, VersionPaths(on_disk.folder).tree, record.request.target)
        await self._write(self._table.put, replace(record, mode=MountMode.NATIVE))

    async def take_off(self, target: Path) -> None:
        """Remove every layer, the target folder and the record; ends the FUSE server of which this was the last user."""
        await self._do(self._mounts.unmount_all, target)
        if not self._keep_targets:
            await self._do(_remove_folder, target)
        record = self._table.get(target)
        if record is None:
            return
        async with self._versions.hold((record.uid, record.version)):
            await self._write(self._table.remove, target)
            if record.fuse and not self._has_fuse_users(record):
                await self._release(record)

    async def is_alive(self, target: Path) -> bool:
        """Whether something is mounted at ``target`` and answers."""
        return bool(await self._do(self._mounts.layers, target)) and not await self.is_dead(target)

    async def is_dead(self, target: Path) -> bool:
        """Whether the top layer at ``target`` has lost its server."""
        return await self._do(self._mounts.is_dead, target)

    async def is_gone(self, target: Path) -> bool:
        """Whether there is neither a mount nor a folder: the pod was removed behind our back."""
        return await self._do(self._nothing_at, target)

    async def _show(self, record: Published) -> None:
        async with self._versions.hold((record.uid, record.version)):
            # Remembered before it is mounted: after a crash in between, an unpublish finds what there is to take off.
            await self._write(self._table.put, record)
            paths = VersionPaths(record.folder)
            source = await self._serve(record, paths) if record.mode is MountMode.FUSE else paths.tree
            await self._do(self._bind, source, record.request.target)

    async def _serve(self, record: Published, paths: VersionPaths) -> Path:
        mountpoint = self._mount_root / record.uid / record.version
        try:
            await self._keeper.serve(record.uid, record.version, paths.manifest, paths.folder, mountpoint)
        except KeeperUnavailable as error:
            raise VolumeError(
                VolumeCode.INTERNAL, f"serving the Dataset {record.request.name} failed: {error}"
            ) from error
        return mountpoint

    async def _release(self, record: Published) -> None:
        try:
            await self._keeper.release(record.uid, record.version)
        except KeeperUnavailable as error:
            # The volume is gone for the pod, which is what was asked; the next user of the version takes the server over.
            log.warning(
                "the FUSE server of %s, version %s, was not ended: %s", record.request.name, record.version, error
            )

    def _has_fuse_users(self, record: Published) -> bool:
        version = (record.uid, record.version)
        return any(other.fuse and (other.uid, other.version) == version for other in self._table.all())

    def _nothing_at(self, target: Path) -> bool:
        return not self._mounts.layers(target) and not os.path.lexists(target)

    def _bind(self, source: Path, target: Path) -> None:
        if not self._mounts.layers(target):
            # The kubelet makes only the parent; 0750 is what it gives that.
            target.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._mounts.bind(source, target)

    async def _write(self, change: Callable[[_A], None], argument: _A) -> None:
        async with self._writing:
            await self._do(change, argument)

    async def _do(self, call: Callable[..., _R], *args: Path | Published) -> _R:
        """Run a blocking call in a thread; what the system refuses becomes a sentence."""
        try:
            return await asyncio.to_thread(call, *args)
        except (MountError, OSError) as error:
            raise VolumeError(VolumeCode.INTERNAL, f"{error} (asked for by the volume's mount or unmount)") from error


def _remove_folder(target: Path) -> None:
    """rmdir, so that a folder that is not empty, which nobody but a person could have filled, is never deleted."""
    try:
        target.rmdir()
    except FileNotFoundError:
        return
