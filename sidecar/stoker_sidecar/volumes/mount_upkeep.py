"""Keeps mounted volumes alive and on their best mount: after a start, at each change, and when layers are spent."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_storage import NodeMount
from stoker_sidecar.errors import VolumeError
from stoker_sidecar.volumes.core.lost_mounts import identified
from stoker_sidecar.volumes.core.publish import Published, VersionKey, VersionOnDisk, claiming, is_settled, users
from stoker_sidecar.volumes.mount_sources import MountSources
from stoker_sidecar.volumes.mounted_volumes import VolumeBindings

log = logging.getLogger(__name__)


class MountUpkeep:
    """Maintains the mounts of ``bindings``. All methods run in its event loop."""

    def __init__(self, bindings: VolumeBindings, sources: MountSources) -> None:
        self._bindings = bindings
        self._table = bindings.table
        self._sources = sources

    def versions(self) -> frozenset[VersionKey]:
        """Return the versions that are mounted."""
        return frozenset((record.uid, record.version) for record in self._table.all())

    def overlaid(self) -> frozenset[VersionKey]:
        """Return the versions with a volume on an overlay."""
        overlays = (record for record in self._table.all() if record.mode is MountMode.OVERLAY)
        return frozenset((record.uid, record.version) for record in overlays)

    async def identify(self, told: Iterable[NodeMount], planned: Mapping[str, NodeDataset]) -> None:
        """Fill in the names of Datasets and pods, and the version sizes, in rebuilt rows.

        ``told`` are the mounts of the last NodeCache status. ``planned`` are Datasets by UID.
        """
        told = tuple(told)
        for record in self._table.all():
            if not record.request.dataset:
                await self._identify(identified(record, told, planned.get(record.uid)))

    async def reconcile(self, uid: str, digest: str) -> bool:
        """Give every volume of a version, also a dead one, the best mount that is possible now.

        Return True if all have it.
        """
        on_disk = await self._bindings.find(uid, digest)
        if on_disk is None:
            return True  # nothing to improve; existing mounts stay
        self._sources.prepare((uid, digest), on_disk)
        for record in users(self._table.all(), (uid, digest)):
            target, wanted = record.request.target, self._best(record, on_disk)
            if target in self._bindings.dead:  # the missing version may be back, such as one that lay in memory
                await self._bindings.finish(self._restore(target))
                self._bindings.on_change()
            elif not is_settled(record, on_disk, wanted):
                await self._bindings.finish(self._swap(target, on_disk, wanted))
        after = users(self._table.all(), (uid, digest))
        for record in after:
            if record.request.target in self._bindings.slower:  # its container may have restarted
                await self._bindings.look_in_pod(record.request.target)
        settled = all(is_settled(row, on_disk, self._best(row, on_disk)) for row in after)
        return settled and all(row.request.target not in self._bindings.dead for row in after)

    async def renew(self, version: VersionKey) -> None:
        """Let the kernel reopen files of an overlay that arrived after their first open, so that reads go to the disk.

        Raises MountError.
        """
        await self._sources.renew(version)

    async def collect_layers(self) -> None:
        """Remove metadata layers without further use."""
        if self._bindings.unknown:
            return
        self._sources.drop_spent_names()
        for version in await self._sources.built():
            await self._sources.drop_spent_layer(version, await self._bindings.find(*version))

    async def restore(self) -> None:
        """Forget volumes of deleted pods, remount volumes without a mount or server, and propagate mounts into pods.

        Call this once after a start.
        """
        await asyncio.gather(*(self._restore(record.request.target) for record in self._table.all()))
        await self._sources.clear_leftovers()
        self._bindings.on_change()

    def _best(self, record: Published, on_disk: VersionOnDisk) -> MountMode:
        return self._sources.best((record.uid, record.version), on_disk, record.request)

    async def _identify(self, record: Published) -> None:
        on_disk = await self._bindings.find(record.uid, record.version)
        if on_disk is not None:
            record = replace(record, files=on_disk.files, bytes=on_disk.bytes)
        target = record.request.target
        try:
            async with self._bindings.hold(target):
                if (known := self._table.get(target)) is not None:
                    known = replace(known, request=record.request, files=record.files, bytes=record.bytes)
                    await self._bindings.remember(known)
        except VolumeError as error:
            log.warning("the rebuilt row of the volume at %s cannot be written: %s", target, error)

    async def _swap(self, target: Path, on_disk: VersionOnDisk, mode: MountMode) -> None:
        """Bind another mount of the same version over the current one.

        New opens use it, and open files keep the old one.
        """
        async with self._bindings.hold(target):
            record = self._table.get(target)
            if record is None or is_settled(record, on_disk, mode):
                return
            try:
                await self._bindings.bind(claiming(record, mode), on_disk.folder, mode)
                await self._bindings.show_in_pod(target, record.request.pod_uid)
            except VolumeError as error:
                log.warning("volume %s stays on %s: %s", record.request.row_id, record.mode, error)
        self._bindings.on_change()

    async def _restore(self, target: Path) -> None:
        async with self._bindings.hold(target):
            record = self._table.get(target)
            try:
                if record is None:
                    return
                if await self._bindings.mounter.is_gone(target):
                    await self._bindings.remove(target)
                elif not await self._bindings.mounter.is_alive(target):
                    await self._bindings.bind_again(record)
                else:  # the previous agent may not have seen the containers (hostPID), or died in between
                    await self._bindings.show_in_pod(target, record.request.pod_uid)
                self._bindings.dead.discard(target)
            except VolumeError as error:
                self._bindings.dead.add(target)
                log.error("the volume at %s was not mounted again, and its pod reads nothing: %s", target, error)
