"""Puts the parts together that mount volumes on one machine: for the agent of a node, and for `stoker mount` as root."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stoker_api.dataset import MountMode
from stoker_sidecar.linux import mounts
from stoker_sidecar.volumes import overlay_probe
from stoker_sidecar.volumes.mount_table import JsonMountTable
from stoker_sidecar.volumes.mounter import Mounter
from stoker_sidecar.volumes.overlays import Overlays
from stoker_sidecar.volumes.ports import Plan
from stoker_sidecar.volumes.publisher import Publisher
from stoker_sidecar.volumes.sources import Sources
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.keeper_client import KeeperClient


@dataclass(frozen=True)
class VolumePaths:
    """Where volumes are mounted and remembered, and where the keeper listens that serves them."""

    mount_table: Path  # a file; it survives the process, so that the next one knows every mount
    mount_root: Path  # folder of the FUSE and overlay mounts
    metadata_root: Path  # folder of the overlays' metadata layers, root's alone: an inode for each file
    keeper_socket: Path


@dataclass(frozen=True)
class NodeVolumes:
    """The volumes of one machine. ``modes``: how it can mount, best first; ``why_no_overlay``: a sentence, or empty."""

    publisher: Publisher
    overlays: Overlays
    modes: tuple[MountMode, ...]
    why_no_overlay: str


def node_volumes(
    paths: VolumePaths,
    plan: Plan,
    folders: CacheFolders,
    on_change: Callable[[], None],
    *,
    overlays_refused: str = "",
    keep_targets: bool = False,
    wait_seconds: float = 50.0,
) -> NodeVolumes:
    """Assemble the volumes of this machine, and try for real whether it can mount overlays.

    ``on_change`` is called when what a pod sees, or could see, may have changed. ``overlays_refused``: why overlays are not even
    to be tried. ``keep_targets``: target folders are someone's own and stay when nothing is mounted there.
    ``wait_seconds``: how long a publish waits for plan and manifest. Blocks for some milliseconds.
    """
    why = overlays_refused or overlay_probe.why_no_overlay(paths.metadata_root, paths.mount_root)
    modes = overlay_probe.modes(why)
    table = JsonMountTable(paths.mount_table)
    overlays = Overlays(paths.metadata_root, paths.mount_root, on_change)
    sources = Sources(KeeperClient(paths.keeper_socket), overlays, table, paths.mount_root, modes)
    mounter = Mounter(sources, mounts, table, keep_targets=keep_targets)
    publisher = Publisher(plan, folders, table, mounter, on_change=on_change, wait_seconds=wait_seconds)
    return NodeVolumes(publisher, overlays, modes, why)
