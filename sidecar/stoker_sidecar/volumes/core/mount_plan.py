"""Decides which of the three mounts a volume should have: native, overlay or FUSE. Pure."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from stoker_api.dataset import MountMode
from stoker_sidecar.volumes.core.publish import Published, VersionOnDisk

Version = tuple[str, str]  # uid of the Dataset, digest


def wanted_mode(on_disk: VersionOnDisk, node_modes: Collection[MountMode], *, layer_ready: bool) -> MountMode:
    """The best mount now. ``layer_ready``: the version's metadata layer is built. FUSE where nothing better is possible."""
    if on_disk.complete:
        return MountMode.NATIVE
    if MountMode.OVERLAY in node_modes and layer_ready:
        return MountMode.OVERLAY
    return MountMode.FUSE


def needs_layer(on_disk: VersionOnDisk, node_modes: Collection[MountMode], *, layer_ready: bool) -> bool:
    """Whether a metadata layer would make the version's mounts better. A complete version needs none."""
    return not on_disk.complete and MountMode.OVERLAY in node_modes and not layer_ready


def is_settled(record: Published, on_disk: VersionOnDisk, wanted: MountMode) -> bool:
    """Whether nothing is to be done: the mount is of the wanted kind, and of the folder where the version lies now.

    A native mount whose version turned out damaged, or was moved to another cache folder, is not settled: what can still
    read everything is laid over it.
    """
    return record.mode is wanted and record.folder == on_disk.folder


def claiming(record: Published, mode: MountMode) -> Published:
    """The record before such a layer is added: what the layer needs is needed from now on, and what lies below it still is."""
    below = mode is not MountMode.NATIVE
    return replace(record, fuse=record.fuse or below, overlay=record.overlay or mode is MountMode.OVERLAY)


def alone(record: Published, on_disk: VersionOnDisk, mode: MountMode) -> Published:
    """The record of a volume of which nothing below the new layer is alive."""
    return replace(
        record,
        folder=on_disk.folder,
        mode=mode,
        fuse=mode is not MountMode.NATIVE,
        overlay=mode is MountMode.OVERLAY,
    )


def users(records: Iterable[Published], version: Version) -> tuple[Published, ...]:
    """The volumes that show a version."""
    return tuple(record for record in records if (record.uid, record.version) == version)


def layer_is_spent(records: Iterable[Published], version: Version, on_disk: VersionOnDisk | None) -> bool:
    """Whether a metadata layer only takes inodes: no overlay uses it, and none will, since the version is whole or gone."""
    used = any(record.overlay for record in users(records, version))
    return not used and (on_disk is None or on_disk.complete)
