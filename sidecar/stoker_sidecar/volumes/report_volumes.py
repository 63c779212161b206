"""The report volumes: each pod's own folder with the socket that it reports to, shown read-only in the pod.

A pod never fails to start for want of one: what cannot be mounted is an empty folder.
"""

import asyncio
import json
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from stoker_api.pod_hints import hint_attributes, read_hints
from stoker_sidecar.errors import VolumeError
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_sidecar.volumes.mounter import Mounter, in_thread
from stoker_sidecar.volumes.synchronization import KeyedLocks, Uninterrupted

log = logging.getLogger(__name__)
_FORMAT = 1
# Its group is the listener's, which makes the socket; everyone may pass: only the pod has a way there.
_FOLDER_MODE = 0o775


class ReportVolumes:
    """The report volumes of a node. All methods run in one event loop.

    ``root``: of the pods' folders, made by the keeper, whose group is the listener's. ``table``: a file in which the
    volumes are remembered for the next agent. ``on_change`` is called when a volume came or went.
    """

    def __init__(self, root: Path, table: Path, mounter: Mounter, on_change: Callable[[], None] = lambda: None) -> None:
        self.root = root
        self._table = table
        self._mounter = mounter
        self._on_change = on_change
        self._volumes = {volume.target: volume for volume in _load(table)}
        self._foldered = {target for target, volume in self._volumes.items() if (root / volume.pod_uid).is_dir()}
        self._targets = KeyedLocks()
        self._writing = asyncio.Lock()
        self._uninterrupted = Uninterrupted()

    def all(self) -> tuple[ReportVolume, ...]:
        """Return every report volume whose folder is there: the listener is told of a pod once, and needs it then.

        A pod that has written several into its spec has several.
        """
        return tuple(volume for target, volume in self._volumes.items() if target in self._foldered)

    def get(self, target: Path) -> ReportVolume | None:
        """Return the volume at ``target``."""
        return self._volumes.get(target)

    async def publish(self, volume: ReportVolume) -> None:
        """Return when the pod's folder is at the target, or an empty one if it cannot be; never refuses."""
        await self._uninterrupted.run(self._publish(volume))

    async def unpublish(self, target: Path) -> bool:
        """Take the volume off ``target``; return whether there was one. Raises VolumeError."""
        if target not in self._volumes:
            return False
        await self._uninterrupted.run(self._unpublish(target))
        return True

    async def restore(self) -> None:
        """Forget volumes whose pods are gone, mount again what lost its mount, remove folders of nobody.

        To be called once, after a start. What fails is logged: pods read on, and do not report.
        """
        for volume in tuple(self._volumes.values()):
            try:
                if await self._mounter.is_gone(volume.target):
                    await self.unpublish(volume.target)
                elif not await self._mounter.is_alive(volume.target):
                    await self.publish(volume)
            except VolumeError as error:
                log.warning("the report volume of pod %s stays as it is: %s", volume.pod_name, error)
        try:
            await in_thread(_remove_others, self.root, {volume.pod_uid for volume in self._volumes.values()})
        except VolumeError as error:
            log.warning("folders of pods that are gone stay: %s", error)
        self._on_change()

    async def _publish(self, volume: ReportVolume) -> None:
        async with self._targets.hold(volume.target):
            self._volumes[volume.target] = volume
            try:
                await self._remember()
                await in_thread(_make_folder, self.root, volume.pod_uid)
                self._foldered.add(volume.target)
                await self._mounter.bind(self.root / volume.pod_uid, volume.target, self.root)
            except VolumeError as error:
                log.warning("pod %s starts without a way to report: %s", volume.pod_name, error)
                await asyncio.to_thread(_make_empty, volume.target)
        self._on_change()

    async def _unpublish(self, target: Path) -> None:
        async with self._targets.hold(target):
            await self._mounter.remove(target)
            gone = self._volumes.pop(target, None)
            self._foldered.discard(target)
            await self._remember()
        self._on_change()
        if gone is not None and all(one.pod_uid != gone.pod_uid for one in self._volumes.values()):
            await in_thread(_remove_folder, self.root / gone.pod_uid)

    async def _remember(self) -> None:
        async with self._writing:
            await in_thread(_save, self._table, tuple(self._volumes.values()))


def _make_folder(root: Path, uid: str) -> None:
    folder = root / uid
    folder.mkdir(exist_ok=True)
    os.chown(folder, -1, root.stat().st_gid, follow_symlinks=False)
    folder.chmod(_FOLDER_MODE)


def _make_empty(target: Path) -> None:
    with suppress(OSError):  # then the container runtime says what is wrong with the folder of the pod
        target.mkdir(mode=0o750, parents=True, exist_ok=True)


def _remove_folder(folder: Path) -> None:
    """Remove a pod's folder. What is in it is the listener's: no link there is followed."""
    shutil.rmtree(folder, ignore_errors=True)


def _remove_others(root: Path, uids: set[str]) -> None:
    for folder in root.iterdir() if root.is_dir() else ():
        if folder.name not in uids:
            _remove_folder(folder)


def _load(path: Path) -> list[ReportVolume]:
    try:
        wire = json.loads(path.read_text(encoding="utf-8"))
        if wire["format"] != _FORMAT:
            raise ValueError(f"format {wire['format']} is not {_FORMAT}")
        return [_from_wire(row) for row in wire["volumes"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        log.warning("%s cannot be read (%s): pods that run report no more", path, error)
        return []


def _from_wire(row: dict[str, Any]) -> ReportVolume:
    return ReportVolume(**row | {"target": Path(row["target"]), "hints": read_hints(row.get("hints"))})


def _save(path: Path, volumes: tuple[ReportVolume, ...]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [vars(volume) | {"target": str(volume.target), "hints": hint_attributes(volume.hints)} for volume in volumes]
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"format": _FORMAT, "volumes": rows}), encoding="utf-8")
    fresh.replace(path)
