"""Assembles the volumes of one machine, for a node's agent or `stoker mount`, and keeps each on its best mount."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stoker_api.dataset import MountMode
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.linux import mounts
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.metadata_layer import LayerForm
from stoker_sidecar.volumes.mount_sources import MountSources
from stoker_sidecar.volumes.mount_table import MountTable
from stoker_sidecar.volumes.mounted_volumes import MountedVolumes
from stoker_sidecar.volumes.mounter import Mounter
from stoker_sidecar.volumes.overlay_renewal import OverlayRenewal, warm_bytes
from stoker_sidecar.volumes.overlays import Overlays, find_form, modes_of
from stoker_sidecar.volumes.publisher import Plan, Publisher
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.disk_floor import NO_FLOOR, DiskFloor
from stoker_sidecar.wire.keeper_client import KeeperClient

log = logging.getLogger(__name__)

# A swap that the system refused is tried again, but not on every change.
TRY_AGAIN_SECONDS = 30.0


@dataclass(frozen=True)
class VolumePaths:
    """Where volumes are mounted and remembered, and where the keeper listens that serves them."""

    mount_table: Path  # a file; it survives the process, so that the next one knows every mount
    mount_root: Path  # folder of the FUSE and overlay mounts
    metadata_root: Path  # folder of the overlays' metadata layers, root's alone: an inode for each file
    keeper_socket: Path


class Reconcilable(Protocol):
    """What is reconciled: the mounted volumes of a machine, of which this needs three methods."""

    def versions(self) -> frozenset[VersionKey]:
        """Return the versions that are mounted."""

    async def reconcile(self, uid: str, digest: str) -> bool:
        """Give every volume of a version the best mount that is possible now; return whether all have it."""

    async def collect_layers(self) -> None:
        """Remove what no mount needs."""


class Reconciler:
    """Moves running pods to the best mount of their version as soon as it is possible, and back if need be.

    It looks at every mounted version whenever something changed: the fetcher's word, the plan, a layer that was built.

    ``clock`` counts seconds.
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
        """Reconcile each mounted version once, but not what was refused a moment ago."""
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
        """Reconcile one version: what its disk answers with must not stop the others. Return whether all is done."""
        try:
            return await self._volumes.reconcile(*version)
        except (OSError, SidecarError) as error:
            log.warning("the volumes of dataset %s, version %s, stay as they are for now: %s", *version, error)
            return False


@dataclass(frozen=True)
class NodeVolumes:
    """The volumes of one machine: what answers for them, what is mounted, and what keeps that as good as it can be."""

    publisher: Publisher
    mounted: MountedVolumes
    reconciler: Reconciler
    renewal: OverlayRenewal
    overlays: Overlays
    modes: tuple[MountMode, ...]  # how the machine can mount, best first
    why_no_overlay: str  # a sentence; empty where overlays work
    mount_root: Path  # folder of the FUSE and overlay mounts

    async def keep(self) -> None:
        """Keep every volume on its best mount, and overlays at what is on the disk, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reconciler.run())
            tasks.create_task(self.renewal.run())


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
    """Assemble the volumes of this machine, and try for real whether it can mount overlays.

    ``changes``: of the plan, and of all that is mounted. ``overlays_refused``: why overlays are not even to be tried.
    ``keep_targets``: target folders are someone's own and stay when nothing is mounted there. ``wait_seconds``: how
    long a publish waits for plan and manifest. ``floor``: what metadata layers leave free of their disk. Blocks for
    some milliseconds.
    """
    form, why = LayerForm.FOLDER, overlays_refused
    if not overlays_refused:
        form, why = find_form(paths.metadata_root, paths.mount_root)
    modes = modes_of(why)
    table = MountTable(paths.mount_table)
    overlays = Overlays(paths.metadata_root, paths.mount_root, changes.mark, floor=floor.for_metadata(), form=form)
    sources = MountSources(KeeperClient(paths.keeper_socket), overlays, table, paths.mount_root, modes)
    mounter = Mounter(mounts, keep_targets=keep_targets)
    mounted = MountedVolumes(table, sources, mounter, folders.find, changes.mark)
    publisher = Publisher(plan, mounted, on_change=changes.mark, wait_seconds=wait_seconds)
    renewal = OverlayRenewal(
        mounted.overlaid, lambda version: warm_bytes(plan.status_of(version[0]), version[1]), mounted.renew, changes
    )
    return NodeVolumes(
        publisher, mounted, Reconciler(changes, mounted), renewal, overlays, modes, why, paths.mount_root
    )
