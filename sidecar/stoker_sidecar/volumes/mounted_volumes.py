"""The mounted volumes: mounts and remembers them, and mounts them anew when they died or a better way is possible."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from stoker_api.dataset import MountMode
from stoker_sidecar.errors import CacheError, VolumeCode, VolumeError
from stoker_sidecar.volumes.core.publish import (
    Bind,
    Published,
    PublishRequest,
    VersionKey,
    VersionOnDisk,
    alone,
    claiming,
    is_settled,
    published,
    users,
)
from stoker_sidecar.volumes.mount_sources import MountSources
from stoker_sidecar.volumes.mount_table import MountTable
from stoker_sidecar.volumes.mounter import Mounter, in_thread
from stoker_sidecar.volumes.synchronization import KeyedLocks, Uninterrupted

log = logging.getLogger(__name__)

FindVersion = Callable[[str, str], VersionOnDisk | None]  # uid of the Dataset, digest; blocks; raises CacheError


class MountedVolumes:
    """The mounted volumes of a machine, by target path. All methods run in one event loop.

    Work on one target excludes other work on it, and goes on to its end when its caller is cancelled. ``find``: looks
    for a version on the cache disk. ``on_change`` is called after a row changed.
    """

    def __init__(
        self,
        table: MountTable,
        sources: MountSources,
        mounter: Mounter,
        find: FindVersion,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._table = table
        self._sources = sources
        self._mounter = mounter
        self._find = find
        self._on_change = on_change
        self._targets = KeyedLocks()
        self._writing = asyncio.Lock()
        self._uninterrupted = Uninterrupted()
        self._dead: set[Path] = set()  # targets whose mount is dead and could not be mounted again yet

    def all(self) -> tuple[Published, ...]:
        """Return every volume's record."""
        return self._table.all()

    def get(self, target: Path) -> Published | None:
        """Return the record of the volume at ``target``."""
        return self._table.get(target)

    def versions(self) -> frozenset[VersionKey]:
        """Return the versions that are mounted."""
        return frozenset((record.uid, record.version) for record in self._table.all())

    def served(self) -> frozenset[VersionKey]:
        """Return the versions of which some volume needs a FUSE mount."""
        return frozenset((record.uid, record.version) for record in self._table.all() if record.fuse)

    def overlaid(self) -> frozenset[VersionKey]:
        """Return the versions that some volume reads through an overlay."""
        return frozenset(
            (record.uid, record.version) for record in self._table.all() if record.mode is MountMode.OVERLAY
        )

    def volumes(self) -> frozenset[tuple[VersionKey, Path]]:
        """Return each mounted volume: its version and its target."""
        return frozenset(((record.uid, record.version), record.request.target) for record in self._table.all())

    async def is_dead(self, target: Path) -> bool:
        """Return whether the mount at ``target`` has lost its server. Raises VolumeError."""
        return await self._mounter.is_dead(target)

    async def find(self, uid: str, digest: str) -> VersionOnDisk | None:
        """Look for a version on the cache disk; one that is damaged counts as not there."""
        try:
            return await asyncio.to_thread(self._find, uid, digest)
        except CacheError as error:
            log.warning("version %s of dataset %s: %s; the fetcher fetches it again", digest, uid, error)
            return None

    async def mount(self, request: PublishRequest, choice: Bind, is_wanted: Callable[[], bool]) -> None:
        """Return when the volume is mounted, perhaps by another call.

        Raises VolumeError, and leaves nothing behind then.

        ``is_wanted`` is asked when nobody else works on the target any more: an unpublish may have come first.
        """
        await self._uninterrupted.run(self._mount(request, choice, is_wanted))

    async def mount_again(self, request: PublishRequest) -> None:
        """Return when a volume that was published before is mounted and answers. Raises VolumeError."""
        await self._uninterrupted.run(self._mount_again(request))

    async def unmount(self, target: Path) -> None:
        """Take off every layer, remove the target folder and the record, and end what only this volume needed.

        Raises VolumeError.
        """
        await self._uninterrupted.run(self._unmount(target))

    async def reconcile(self, uid: str, digest: str) -> bool:
        """Give every volume of a version the best mount that is possible now, also one that is dead.

        Return whether all have it.
        """
        on_disk = await self.find(uid, digest)
        if on_disk is None:
            return True  # nothing better can be said or done; what is mounted stays
        self._sources.prepare((uid, digest), on_disk)
        wanted = self._sources.best((uid, digest), on_disk)
        for record in users(self._table.all(), (uid, digest)):
            target = record.request.target
            if target in self._dead:  # what it lacked may be here by now, such as a version that lay in memory
                await self._uninterrupted.run(self._restore(target))
                self._on_change()
            elif not is_settled(record, on_disk, wanted):
                await self._uninterrupted.run(self._swap(target, on_disk, wanted))
        after = users(self._table.all(), (uid, digest))
        return all(is_settled(row, on_disk, wanted) and row.request.target not in self._dead for row in after)

    async def renew(self, version: VersionKey) -> None:
        """Have files of an overlay that have arrived since they were first opened be read where they lie.

        Raises MountError.
        """
        await self._sources.renew(version)

    async def collect_layers(self) -> None:
        """Remove metadata layers that are of no more use."""
        for version in await self._sources.built():
            await self._sources.drop_spent_layer(version, await self.find(*version))

    async def restore(self) -> None:
        """Forget volumes whose pods are gone, mount again what lost its mount or server, show all in the pods.

        To be called once, after a start.
        """
        await asyncio.gather(*(self._restore(record.request.target) for record in self._table.all()))
        await self._sources.clear_leftovers()
        self._on_change()

    async def _mount(self, request: PublishRequest, choice: Bind, is_wanted: Callable[[], bool]) -> None:
        async with self._targets.hold(request.target):
            if self._table.get(request.target) is not None:
                return  # another call for the same target was faster
            if not is_wanted():
                raise VolumeError(VolumeCode.ABORTED, f"the volume {request.volume_id} was unpublished while it waited")
            mode = self._sources.best((choice.uid, choice.version), choice.on_disk)
            record = published(request, choice, mode)
            await self._mounter.unmount(request.target)
            try:
                await self._bind(record, record.folder, record.mode)
            except VolumeError:
                await self._remove(request.target)
                raise

    async def _mount_again(self, request: PublishRequest) -> None:
        async with self._targets.hold(request.target):
            record = self._table.get(request.target)
            if record is None:
                raise VolumeError(VolumeCode.ABORTED, f"the volume {request.volume_id} was unpublished meanwhile")
            if record.request.name != request.name:
                raise VolumeError(
                    VolumeCode.ALREADY_EXISTS,
                    f"{request.target} shows the Dataset {record.request.name}, not {request.name}: unpublish it first",
                )
            if not await self._mounter.is_alive(request.target):
                await self._remount(record)

    async def _unmount(self, target: Path) -> None:
        async with self._targets.hold(target):
            await self._remove(target)
            self._dead.discard(target)
        self._on_change()

    async def _swap(self, target: Path, on_disk: VersionOnDisk, mode: MountMode) -> None:
        """Bind another mount of the same version over the one that is there.

        New opens find it, open files keep the old one.
        """
        async with self._targets.hold(target):
            record = self._table.get(target)
            if record is None or is_settled(record, on_disk, mode):
                return
            try:
                await self._bind(claiming(record, mode), on_disk.folder, mode)
                await self._mounter.propagate(target, record.request.pod_uid)
            except VolumeError as error:
                log.warning("volume %s stays on %s: %s", record.request.row_id, record.mode, error)
        self._on_change()

    async def _restore(self, target: Path) -> None:
        async with self._targets.hold(target):
            record = self._table.get(target)
            try:
                if record is None:
                    return
                if await self._mounter.is_gone(target):
                    await self._remove(target)
                elif not await self._mounter.is_alive(target):
                    await self._remount(record)
                else:  # the agent before this one may not have seen the containers (hostPID), or was killed half way
                    await self._mounter.propagate(target, record.request.pod_uid)
                self._dead.discard(target)
            except VolumeError as error:
                self._dead.add(target)
                log.error("the volume at %s was not mounted again, and its pod reads nothing: %s", target, error)

    async def _remount(self, record: Published) -> None:
        """Mount a volume's version over its dead layer: on top of it, since only there running containers see it."""
        on_disk = await self.find(record.uid, record.version)
        if on_disk is None:
            raise VolumeError(
                VolumeCode.UNAVAILABLE,
                f"version {record.version[:12]} of the Dataset {record.request.name} is no longer on this node's "
                "cache disk, and a pod keeps its version for life: "
                "delete the pod, and a new one gets the current version",
            )
        mode = self._sources.best((record.uid, record.version), on_disk)
        fresh, target = alone(record, on_disk, mode), record.request.target
        try:
            await self._bind(fresh, on_disk.folder, mode)
        except VolumeError as error:
            refused = "volume %s: mounting over the dead layer failed (%s): it is taken off first"
            log.warning(refused, record.request.row_id, error)
            await self._mounter.unmount(target)
            await self._bind(fresh, on_disk.folder, mode)
        await self._mounter.propagate(target, record.request.pod_uid)

    async def _bind(self, record: Published, folder: Path, mode: MountMode) -> None:
        version = (record.uid, record.version)
        async with self._sources.hold(version):
            # Remembered before it is mounted: after a crash in between, an unpublish finds what there is to take off.
            await self._remember(record)
            source = await self._sources.open(version, folder, mode)
            await self._mounter.bind(source.folder, record.request.target, source.root)
            await self._remember(replace(record, folder=folder, mode=source.mode))

    async def _remove(self, target: Path) -> None:
        await self._mounter.remove(target)
        record = self._table.get(target)
        if record is None:
            return
        version = (record.uid, record.version)
        async with self._sources.hold(version):
            async with self._writing:
                await in_thread(self._table.remove, target)
            if record.fuse:
                await self._sources.release_unused(version)

    async def _remember(self, record: Published) -> None:
        async with self._writing:
            await in_thread(self._table.put, record)
