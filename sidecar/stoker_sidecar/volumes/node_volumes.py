"""Assembles the volumes of one machine, for a node's agent or `stoker mount`, and keeps each on its best mount."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.linux.mounts import target_mounts
from stoker_sidecar.volumes.core.publish import PublishRequest, VersionKey
from stoker_sidecar.volumes.layers.metadata_layer import LayerForm
from stoker_sidecar.volumes.layers.overlay_renewal import OverlayRenewal, warm_bytes
from stoker_sidecar.volumes.layers.overlay_support import find_form, modes_of
from stoker_sidecar.volumes.layers.overlays import Overlays
from stoker_sidecar.volumes.layers.scratch.scratch_layers import ScratchLayers
from stoker_sidecar.volumes.mount_recovery import recover
from stoker_sidecar.volumes.mount_sources import MountSources
from stoker_sidecar.volumes.mount_table import MountTable
from stoker_sidecar.volumes.mount_upkeep import MountUpkeep
from stoker_sidecar.volumes.mounted_volumes import MountedVolumes
from stoker_sidecar.volumes.mounter import Mounter
from stoker_sidecar.volumes.publisher import Plan, Publisher
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.unmount_watch import UnmountWatch
from stoker_sidecar.volumes.user_namespaces import UserNamespaces
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.config.disk_floor import NO_FLOOR, DiskFloor
from stoker_sidecar.wire.keeper_client import KeeperClient

log = logging.getLogger(__name__)

# A refused swap is retried at this interval, not on every change.
TRY_AGAIN_SECONDS = 30.0


@dataclass(frozen=True)
class VolumePaths:
    """Paths of mounts and state, and of the keeper's socket."""

    mount_table: Path  # a file that survives the process, so that the next one knows every mount
    mount_root: Path  # folder of the FUSE and overlay mounts
    metadata_root: Path  # folder of the overlays' metadata layers, owned by root: one inode for each file
    keeper_socket: Path
    cache_disks: tuple[Path, ...] = ()  # cache folders on disks, where scratch layers lie
    pods: Path | None = None  # folder of the kubelet's pods, for rebuilding rows; None without a kubelet


class Reconcilable(Protocol):
    """The upkeep of a machine's mounts, with the three methods that the reconciler needs."""

    def versions(self) -> frozenset[VersionKey]:
        """Return the versions that are mounted."""

    async def reconcile(self, uid: str, digest: str) -> bool:
        """Give every volume of a version the best mount that is possible now. Return True if all have it."""

    async def collect_layers(self) -> None:
        """Remove metadata layers that no mount needs."""


class Reconciler:
    """Moves running pods to the best mount of their version as soon as it is possible, and back if needed.

    It checks every mounted version at each change: a fetcher report, the plan, a finished layer. ``clock`` counts
    seconds.
    """

    def __init__(self, changes: Changes, volumes: Reconcilable, clock: Callable[[], float] = time.monotonic) -> None:
        self._changes = changes
        self._volumes = volumes
        self._clock = clock
        self._refused: dict[VersionKey, float] = {}

    async def run(self) -> None:
        """Reconcile at every change, until cancelled."""
        while True:
            token = self._changes.token()
            await self.reconcile_all()
            await self._changes.wait(token, TRY_AGAIN_SECONDS if self._refused else None)

    async def reconcile_all(self) -> None:
        """Reconcile each mounted version once, except recently refused ones."""
        mounted = self._volumes.versions()
        self._refused = {version: when for version, when in self._refused.items() if version in mounted}
        for version in mounted:
            if self._clock() - self._refused.get(version, float("-inf")) < TRY_AGAIN_SECONDS:
                continue
            self._refused.pop(version, None)
            if not await self._reconcile(version):
                self._refused[version] = self._clock()
        await self._volumes.collect_layers()

    async def _reconcile(self, version: VersionKey) -> bool:
        """Reconcile one version, so that its disk errors do not stop the others. Return True if all is done."""
        try:
            return await self._volumes.reconcile(*version)
        except (OSError, SidecarError) as error:
            log.warning("the volumes of dataset %s, version %s, stay as they are for now: %s", *version, error)
            return False


@dataclass(frozen=True)
class NodeVolumes:
    """The volumes of one machine: the publisher, the mounted volumes, and their maintenance."""

    publisher: Publisher
    mounted: MountedVolumes
    upkeep: MountUpkeep
    reconciler: Reconciler
    renewal: OverlayRenewal
    overlays: Overlays
    modes: tuple[MountMode, ...]  # the machine's mount modes, best first
    why_no_overlay: str  # a sentence; empty if overlays work
    mount_root: Path  # folder of the FUSE and overlay mounts
    user_namespaces: UserNamespaces
    watch: UnmountWatch | None  # None where people may unmount volumes themselves (`stoker mount`)
    changes: Changes

    async def keep(self) -> None:
        """Keep every volume on its best mount, and overlays up to date with the disk, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reconciler.run())
            tasks.create_task(self.renewal.run())
            tasks.create_task(self.user_namespaces.run(self._requests, self.changes.mark))
            if self.watch is not None:
                tasks.create_task(self.watch.run())

    def _requests(self) -> tuple[PublishRequest, ...]:
        return tuple(record.request for record in self.mounted.all())


def node_volumes(
    paths: VolumePaths,
    plan: Plan,
    folders: CacheFolders,
    changes: Changes,
    *,
    overlays_refused: str = "",
    keep_targets: bool = False,
    wait_seconds: float = 50.0,
    floor: DiskFloor = NO_FLOOR,
) -> NodeVolumes:
    """Assemble the volumes of this machine, and test if it can mount overlays.

    ``changes`` covers the plan and all mounts. ``overlays_refused`` is the reason to skip the test. ``keep_targets``
    means that target folders belong to someone else and stay after an unmount. ``wait_seconds`` is the time that a
    publish waits for plan and manifest. ``floor`` is the free space that metadata layers leave on their disk. Blocks
    for a few milliseconds.
    """
    form, why = LayerForm.FOLDER, overlays_refused
    if not overlays_refused:
        form, why = find_form(paths.metadata_root, paths.mount_root)
    modes = modes_of(why)
    table = MountTable(paths.mount_table)
    unknown = recover(table, folders, paths.pods, paths.mount_root) if paths.pods is not None else None
    overlays = Overlays(paths.metadata_root, paths.mount_root, changes.mark, floor=floor.for_metadata(), form=form)
    scratch = _scratch(paths, changes, floor, form, why)
    user_namespaces = UserNamespaces(paths.pods)
    user_namespaces.look(record.request for record in table.all())
    keeper = KeeperClient(paths.keeper_socket)
    sources = MountSources(keeper, overlays, table, paths.mount_root, modes, user_namespaces, scratch)
    mounter = Mounter(target_mounts, keep_targets=keep_targets)
    mounted = MountedVolumes(table, sources, mounter, folders.find, changes.mark, unknown)
    upkeep = MountUpkeep(mounted.bindings, sources)
    publisher = Publisher(plan, mounted, on_change=changes.mark, wait_seconds=wait_seconds)
    renewal = OverlayRenewal(
        upkeep.overlaid, lambda version: warm_bytes(plan.status_of(version[0]), version[1]), upkeep.renew, changes
    )
    return NodeVolumes(
        publisher,
        mounted,
        upkeep,
        Reconciler(changes, upkeep),
        renewal,
        overlays,
        modes,
        why,
        paths.mount_root,
        user_namespaces,
        UnmountWatch(mounted, paths.mount_root) if paths.pods is not None else None,
        changes,
    )


def _scratch(paths: VolumePaths, changes: Changes, floor: DiskFloor, form: LayerForm, why: str) -> ScratchLayers:
    root = paths.metadata_root.with_name(paths.metadata_root.name + "-writable")
    names = Overlays(root, paths.mount_root, changes.mark, floor=floor.for_metadata(), form=form, writable=True)
    return ScratchLayers(paths.mount_root, names, paths.cache_disks, floor, why)
