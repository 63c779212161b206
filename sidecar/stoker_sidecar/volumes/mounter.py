"""Puts layers on the pods' target paths and takes them off, and remembers what it did."""

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from stoker_api.dataset import MountMode
from stoker_sidecar.errors import MountError, VolumeCode, VolumeError
from stoker_sidecar.volumes.core.mount_plan import alone, claiming
from stoker_sidecar.volumes.core.publish import Published, VersionOnDisk
from stoker_sidecar.volumes.ports import Mounts, MountTable
from stoker_sidecar.volumes.sources import Sources

log = logging.getLogger(__name__)

_A = TypeVar("_A", Path, Published)
_R = TypeVar("_R")


class Mounter:
    """Acts on one target at a time; the publisher sees to it that no two calls work on the same one.

    ``keep_targets``: target folders are someone's own and stay when nothing is mounted there.
    """

    def __init__(self, sources: Sources, mounts: Mounts, table: MountTable, *, keep_targets: bool = False) -> None:
        self.sources = sources
        self._mounts = mounts
        self._table = table
        self._keep_targets = keep_targets
        self._writing = asyncio.Lock()

    async def mount(self, record: Published) -> None:
        """Mount where nothing of ours is known to be. Raises VolumeError, and then nothing is left behind."""
        target = record.request.target
        await self._do(self._mounts.unmount_all, target)
        try:
            await self._lay(record, record.folder, record.mode)
        except VolumeError:
            await self.take_off(target)
            raise

    async def heal(self, record: Published, on_disk: VersionOnDisk) -> None:
        """Mount a known volume's version again, over the dead layer: on top of it, since only there running containers see it."""
        mode = self.sources.best((record.uid, record.version), on_disk)
        fresh = alone(record, on_disk, mode)
        try:
            await self._lay(fresh, on_disk.folder, mode)
        except VolumeError as error:
            log.warning(
                "volume %s: mounting over the dead layer failed (%s): it is taken off first",
                record.request.row_id,
                error,
            )
            await self._do(self._mounts.unmount_all, record.request.target)
            await self._lay(fresh, on_disk.folder, mode)
        await self.follow(record)

    async def swap(self, record: Published, on_disk: VersionOnDisk, mode: MountMode) -> None:
        """Lay another mount of the same version over the one that is there, where new opens find it. Raises VolumeError.

        Files that are open go on through the old one, so what that needs stays.
        """
        await self._lay(claiming(record, mode), on_disk.folder, mode)
        await self.follow(record)

    async def follow(self, record: Published) -> None:
        """Show the top layer also in containers to which mounts do not propagate, where the node's processes can be seen."""
        request = record.request
        try:
            await asyncio.to_thread(self._mounts.show_in_pod, request.pod_uid, request.target)
        except MountError as error:
            log.warning("a container of volume %s stays on the mount that it has: %s", request.row_id, error)

    async def take_off(self, target: Path) -> None:
        """Remove every layer, the target folder and the record; ends the FUSE server of which this was the last user."""
        await self._do(self._mounts.unmount_all, target)
        if not self._keep_targets:
            await self._do(_remove_folder, target)
        record = self._table.get(target)
        if record is None:
            return
        version = (record.uid, record.version)
        async with self.sources.hold(version):
            await self._write(self._table.remove, target)
            if record.fuse:
                await self.sources.release_unused(version)

    async def is_alive(self, target: Path) -> bool:
        """Whether something is mounted at ``target`` and answers."""
        return bool(await self._do(self._mounts.layers, target)) and not await self.is_dead(target)

    async def is_dead(self, target: Path) -> bool:
        """Whether the top layer at ``target`` has lost its server."""
        return await self._do(self._mounts.is_dead, target)

    async def is_gone(self, target: Path) -> bool:
        """Whether there is neither a mount nor a folder: the pod was removed behind our back."""
        return await self._do(self._nothing_at, target)

    async def _lay(self, record: Published, folder: Path, mode: MountMode) -> None:
        version = (record.uid, record.version)
        async with self.sources.hold(version):
            # Remembered before it is mounted: after a crash in between, an unpublish finds what there is to take off.
            await self._write(self._table.put, record)
            source = await self.sources.open(version, folder, mode)
            await self._do(self._bind, source.folder, record.request.target)
            await self._write(self._table.put, replace(record, folder=folder, mode=source.mode))

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
