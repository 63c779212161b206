"""Mounts and unmounts volumes for the kubelet, and records them."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.errors import CacheError, VolumeCode, VolumeError
from stoker_sidecar.volumes.core.publish import (
    Bind,
    Published,
    PublishRequest,
    Refuse,
    VersionKey,
    VersionOnDisk,
    Wait,
    alone,
    claiming,
    published,
)
from stoker_sidecar.volumes.mount_sources import MountSource, MountSources
from stoker_sidecar.volumes.mount_table import MountTable, UnknownMounts
from stoker_sidecar.volumes.mounter import Mounter, in_thread
from stoker_sidecar.volumes.synchronization import KeyedLocks, Uninterrupted

log = logging.getLogger(__name__)

_UNKNOWN = Path("/")  # placeholder for an unknown target

FindVersion = Callable[[str, str], VersionOnDisk | None]  # uid of the Dataset, digest; blocks; raises CacheError


class VolumeBindings:
    """The bind mount and the record of each target. Callers hold a target while they change it.

    ``slower`` has the mode of each pod that still sees an older layer, by target. ``dead`` has the targets with a dead
    mount that could not be remounted yet. For the arguments, see ``MountedVolumes``.
    """

    def __init__(
        self,
        table: MountTable,
        sources: MountSources,
        mounter: Mounter,
        find: FindVersion,
        on_change: Callable[[], None],
        unknown: UnknownMounts,
    ) -> None:
        self.table = table
        self.mounter = mounter
        self.unknown = unknown
        self.on_change = on_change
        self.slower: dict[Path, MountMode] = {}
        self.dead: set[Path] = set()
        self.opening: set[VersionKey] = set()  # versions whose source may not respond yet
        self._sources = sources
        self._find = find
        self._targets = KeyedLocks()
        self._writing = asyncio.Lock()
        self._uninterrupted = Uninterrupted()

    def hold(self, target: Path) -> AbstractAsyncContextManager[None]:
        """Return a context that excludes other work on ``target``."""
        return self._targets.hold(target)

    async def finish(self, work: Coroutine[None, None, None]) -> None:
        """Wait for ``work``, which continues if the caller is cancelled. Raises its errors."""
        await self._uninterrupted.run(work)

    async def find(self, uid: str, digest: str) -> VersionOnDisk | None:
        """Look up a version on the cache disk. A damaged one counts as missing."""
        try:
            return await asyncio.to_thread(self._find, uid, digest)
        except CacheError as error:
            log.warning("version %s of dataset %s: %s; the fetcher fetches it again", digest, uid, error)
            return None

    def obstacle(self, request: PublishRequest, choice: Bind) -> Wait | Refuse | None:
        """Return why a volume cannot be mounted now, although its version is here."""
        return self._sources.obstacle((choice.uid, choice.version), choice.on_disk, request)

    async def remember(self, record: Published) -> None:
        """Store a volume's record durably. Raises VolumeError."""
        async with self._writing:
            await in_thread(self.table.put, record)

    async def bind(self, record: Published, folder: Path, mode: MountMode) -> None:
        """Record the volume, open its source in ``mode``, and bind it over existing layers. Raises VolumeError.

        Where the kernel refuses a read-only layer, the volume is bound to the FUSE server instead.
        """
        try:
            await self._bind_source(record, folder, mode)
        except VolumeError as error:
            layered = mode is MountMode.NATIVE and not record.request.ephemeral
            if not layered or not self._sources.refuses_layer(folder, error):
                raise
            await self._bind_source(claiming(record, MountMode.FUSE), folder, MountMode.FUSE)

    async def serve_again(self, record: Published) -> None:
        """Mount the FUSE server of a volume's version where it belongs. Raises VolumeError."""
        version = (record.uid, record.version)
        async with self._sources.hold(version):
            if self.table.get(record.request.target) is not None:
                await self._sources.open(version, record.folder, MountMode.FUSE, bind_is_safe=True)

    async def _bind_source(self, record: Published, folder: Path, mode: MountMode) -> None:
        version = (record.uid, record.version)
        async with self._sources.hold(version):
            # Recorded before the mount: after a crash in between, an unpublish knows what to unmount.
            await self.remember(record)
            self.opening.add(version)
            try:
                source = await self._open(record, folder, mode)
            finally:
                self.opening.discard(version)
            if source.writable:
                await self.mounter.bind_writable(source.folder, record.request.target)
            else:
                await self.mounter.bind(source.folder, record.request.target, source.root, source.scratch)
            await self.remember(replace(record, folder=folder, mode=source.mode))

    async def _open(self, record: Published, folder: Path, mode: MountMode) -> MountSource:
        if record.request.scratch_bytes:
            return await self._sources.open_scratch(record, folder)
        version = (record.uid, record.version)
        return await self._sources.open(version, folder, mode, bind_is_safe=record.request.ephemeral)

    async def bind_new(self, request: PublishRequest, choice: Bind) -> None:
        """Bind a volume at a target without a record. On error, leave nothing behind. Raises VolumeError."""
        mode = self._sources.best((choice.uid, choice.version), choice.on_disk, request)
        record = published(request, choice, mode)
        await self.mounter.unmount(request.target)
        self.unknown.gone(request.target)
        try:
            await self.bind(record, record.folder, record.mode)
        except VolumeError:
            await self.remove(request.target)
            raise

    async def bind_again(self, record: Published) -> None:
        """Mount a volume's version on top of its dead layer, because running containers see only mounts there.

        Raises VolumeError.
        """
        on_disk = await self.find(record.uid, record.version)
        if on_disk is None:
            raise VolumeError(
                VolumeCode.UNAVAILABLE,
                f"version {record.version[:12]} of the Dataset {record.request.name} is not on this node's cache disk, "
                "or is still checked after an unclean stop: if this persists, delete the pod; a new one gets the "
                "current version",
            )
        mode = self._sources.best((record.uid, record.version), on_disk, record.request)
        fresh, target = alone(record, on_disk, mode), record.request.target
        try:
            await self.bind(fresh, on_disk.folder, mode)
        except VolumeError as error:
            refused = "volume %s: mounting over the dead layer failed (%s): it is taken off first"
            log.warning(refused, record.request.row_id, error)
            await self.mounter.unmount(target)
            await self.bind(fresh, on_disk.folder, mode)
        await self.show_in_pod(target, record.request.pod_uid)

    async def remove(self, target: Path) -> None:
        """Unmount every layer, remove the folder and the record, and release unused sources. Raises VolumeError."""
        await self.mounter.remove(target)
        await self._sources.drop_scratch(target)
        self.unknown.gone(target)
        record = self.table.get(target)
        if record is None:
            return
        version = (record.uid, record.version)
        async with self._sources.hold(version):
            async with self._writing:
                await in_thread(self.table.remove, target)
            if record.fuse and not self.unknown:  # an unknown mount may need them; the next start releases them
                await self._sources.release_unused(version)

    async def show_in_pod(self, target: Path, pod_uid: str) -> None:
        """Show the top layer in the pod's containers, and check which one they see."""
        await self.mounter.propagate(target, pod_uid)
        await self.look_in_pod(target)

    async def look_in_pod(self, target: Path) -> None:
        """Check if the pod still sees an older layer than the volume's top one."""
        if (record := self.table.get(target)) is None:
            return
        shown = await self.mounter.shown_mode(target, record.request.pod_uid, record.mode)
        if shown is self.slower.get(target, record.mode):
            return
        self.slower[target] = shown
        if shown is record.mode:
            del self.slower[target]
        self.on_change()


class MountedVolumes:
    """The mounted volumes of a machine, by target path. All methods run in one event loop.

    Work on one target excludes other work on it, and continues when its caller is cancelled. ``find`` looks up a
    version on the cache disk. ``on_change`` is called after a row changes. ``unknown`` are mounts of pods without a
    row. ``MountUpkeep`` maintains the ``bindings``.
    """

    def __init__(
        self,
        table: MountTable,
        sources: MountSources,
        mounter: Mounter,
        find: FindVersion,
        on_change: Callable[[], None] = lambda: None,
        unknown: UnknownMounts | None = None,
    ) -> None:
        self._table = table
        self.bindings = VolumeBindings(table, sources, mounter, find, on_change, unknown or UnknownMounts())

    def all(self) -> tuple[Published, ...]:
        """Return every volume's record."""
        return self._table.all()

    def get(self, target: Path) -> Published | None:
        """Return the record of the volume at ``target``."""
        return self._table.get(target)

    def shown_mode(self, record: Published) -> MountMode:
        """Return the mode in which the volume's pod reads.

        It is slower than ``record.mode`` if a new mount did not reach it.
        """
        return self.bindings.slower.get(record.request.target, record.mode)

    def served(self) -> frozenset[VersionKey]:
        """Return the versions whose FUSE mount responds. Before that, the keeper's settings apply."""
        needed = frozenset((record.uid, record.version) for record in self._table.all() if record.fuse)
        return needed - self.bindings.opening

    def held(self) -> frozenset[tuple[VersionKey, Path]]:
        """Return the version and the target of each volume.

        While a mount's version is unknown, every version on the disk is among them.
        """
        volumes = frozenset(((record.uid, record.version), record.request.target) for record in self._table.all())
        return volumes | {(version, _UNKNOWN) for version in self.bindings.unknown.held()}

    async def is_dead(self, target: Path) -> bool:
        """Return True if the mount at ``target`` has lost its server. Raises VolumeError."""
        return await self.bindings.mounter.is_dead(target)

    async def find(self, uid: str, digest: str) -> VersionOnDisk | None:
        """Look up a version on the cache disk. A damaged one counts as missing."""
        return await self.bindings.find(uid, digest)

    def obstacle(self, request: PublishRequest, choice: Bind) -> Wait | Refuse | None:
        """Return why a volume cannot be mounted now, although its version is here."""
        return self.bindings.obstacle(request, choice)

    async def mount(self, request: PublishRequest, choice: Bind, is_wanted: Callable[[], bool]) -> None:
        """Mount the volume, unless another call does it first.

        On error, raise VolumeError and leave nothing behind. ``is_wanted`` is called when no other work on the target
        runs: an unpublish may have come first.
        """
        await self.bindings.finish(self._mount(request, choice, is_wanted))

    async def mount_again(self, request: PublishRequest) -> None:
        """Make sure that a published volume is mounted and responds. Raises VolumeError."""
        await self.bindings.finish(self._mount_again(request))

    async def serve_again(self, record: Published) -> None:
        """Mount the FUSE server of a volume's version where it belongs. Raises VolumeError."""
        await self.bindings.serve_again(record)

    async def unmount(self, target: Path) -> None:
        """Unmount every layer, remove the target folder and the record, and release unused sources.

        Raises VolumeError.
        """
        await self.bindings.finish(self._unmount(target))

    async def _mount(self, request: PublishRequest, choice: Bind, is_wanted: Callable[[], bool]) -> None:
        async with self.bindings.hold(request.target):
            if self._table.get(request.target) is not None:
                return  # another call for the same target was faster
            if not is_wanted():
                raise VolumeError(VolumeCode.ABORTED, f"the volume {request.volume_id} was unpublished while it waited")
            await self.bindings.bind_new(request, choice)

    async def _mount_again(self, request: PublishRequest) -> None:
        async with self.bindings.hold(request.target):
            record = self._table.get(request.target)
            if record is None:
                raise VolumeError(VolumeCode.ABORTED, f"the volume {request.volume_id} was unpublished in the meantime")
            if not record.request.dataset:  # rebuilt from mountinfo; the kubelet provides its names
                record = replace(record, request=request)
                await self.bindings.remember(record)
            if record.request.name != request.name:
                raise VolumeError(
                    VolumeCode.ALREADY_EXISTS,
                    f"{request.target} shows the Dataset {record.request.name}, not {request.name}: unpublish it first",
                )
            if not await self.bindings.mounter.is_alive(request.target):
                await self.bindings.bind_again(record)

    async def _unmount(self, target: Path) -> None:
        async with self.bindings.hold(target):
            await self.bindings.remove(target)
            self.bindings.dead.discard(target)
            self.bindings.slower.pop(target, None)
        self.bindings.on_change()
