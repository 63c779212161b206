"""Rebuilds lost rows of the mount table from mountinfo. Holds every version while a mount's version is unknown."""

import json
import logging
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Protocol

from stoker_api import names
from stoker_sidecar.linux.mounts import mountinfo
from stoker_sidecar.linux.mounts.mountinfo import Mount
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.volumes.core.lost_mounts import LostMount, lost_mounts
from stoker_sidecar.volumes.core.publish import Published, VersionKey
from stoker_sidecar.volumes.mount_table import MountTable, UnknownMounts

log = logging.getLogger(__name__)
_MOST_NOTE = 64 * 1024  # bytes; vol_data.json has some hundred


class Versions(Protocol):
    """The versions in the cache folders."""

    def paths(self, uid: str, digest: str) -> VersionPaths | None:
        """Return where a version lies; None if its manifest is in no cache folder."""

    def everything(self) -> frozenset[VersionKey]:
        """Return every version in the cache folders."""


def recover(table: MountTable, versions: Versions, pods: Path, mount_root: Path) -> UnknownMounts:
    """Give the table a row for each of Stoker's mounts below the kubelet's folder ``pods`` that it lacks.

    Call this before the fetcher hears which versions are held. Blocks. Raises OSError if mountinfo cannot be read.
    """
    return recover_from(mountinfo.read(), table, versions, pods, mount_root.resolve())


def recover_from(
    rows: Iterable[Mount], table: MountTable, versions: Versions, pods: Path, mount_root: Path
) -> UnknownMounts:
    """Do the same with these ``rows`` of mountinfo."""
    known = {record.request.target for record in table.all()}
    unknown, records = [], []
    for lost in lost_mounts(rows, pods, mount_root, known):
        note = _kubelets_note(lost.target.parent)
        if not (lost.ours if note is None else note.get("driverName") == names.CSI_DRIVER):
            continue
        record = _record(lost, note or {}, versions)
        if record is not None:
            records.append(record)
        else:
            unknown.append(lost.target)
    _adopt(table, records)
    if not unknown:
        return UnknownMounts()
    held = versions.everything()
    log.warning(
        "%d mounts of pods are in no table and do not tell their version, such as %s: all %d versions on this node are "
        "held until these pods end",
        *(len(unknown), unknown[0], len(held)),
    )
    return UnknownMounts(unknown, held)


def _adopt(table: MountTable, records: Collection[Published]) -> None:
    if not records:
        return
    log.warning("%d mounts of pods were not in the mount table; their rows are rebuilt from mountinfo", len(records))
    try:
        table.adopt(records)
    except OSError as error:
        log.warning("the rebuilt mount table cannot be written yet: %s", error)


def _record(lost: LostMount, note: dict[str, object], versions: Versions) -> Published | None:
    paths = versions.paths(*lost.version) if lost.version is not None else None
    if lost.version is None or paths is None:
        return None
    volume_id = str(note.get("volumeHandle") or lost.target.parent.name)
    return lost.published(
        paths.folder, lost.version, volume_id, ephemeral=note.get("volumeLifecycleMode") == "Ephemeral"
    )


def _kubelets_note(folder: Path) -> dict[str, object] | None:
    """Read the kubelet's vol_data.json of a CSI volume; None without one."""
    try:
        with (folder / "vol_data.json").open("rb") as file:
            note = json.loads(file.read(_MOST_NOTE))
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) else None
