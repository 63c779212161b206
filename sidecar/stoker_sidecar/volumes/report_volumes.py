"""The report volumes: a folder for each pod with the report socket, mounted read-only in the pod.

A pod never fails to start because of one: if the mount fails, it gets an empty folder. A second volume of a pod is
refused.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from stoker_api.jobs.pod_hints import hint_attributes, read_hints
from stoker_sidecar.errors import VolumeCode, VolumeError
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_sidecar.volumes.mount_table import StateFile
from stoker_sidecar.volumes.mounter import Mounter, in_thread
from stoker_sidecar.volumes.synchronization import KeyedLocks, Uninterrupted

log = logging.getLogger(__name__)
_REPORT_VOLUME = TypeAdapter(ReportVolume)
# The folder's group is the listener's, which creates the socket. All users may enter it, but only the pod has a path to
# it.
_FOLDER_MODE = 0o775


class ReportVolumes:
    """The report volumes of a node. All methods run in one event loop.

    ``root`` is the folder of the pods' folders. The keeper creates it, and its group is the listener's. ``table`` is a
    file with the volumes for the next agent. ``on_change`` is called when a volume comes or goes.
    """

    def __init__(self, root: Path, table: Path, mounter: Mounter, on_change: Callable[[], None] = lambda: None) -> None:
        self.root = root
        self._file = StateFile(table, "volumes", _from_wire, _to_wire)
        self._mounter = mounter
        self._on_change = on_change
        self._volumes = {volume.target: volume for volume in self._file.load()}
        self._foldered = {target for target, volume in self._volumes.items() if (root / volume.pod_uid).is_dir()}
        self._targets = KeyedLocks()
        self._writing = asyncio.Lock()
        self._changed = self._saved = 0  # number of changes, and number of changes in the table
        self._uninterrupted = Uninterrupted()

    def all(self) -> tuple[ReportVolume, ...]:
        """Return every report volume with an existing folder. The listener needs the folder when it gets the pod.

        An earlier release mounted several for one pod.
        """
        return tuple(volume for target, volume in self._volumes.items() if target in self._foldered)

    def get(self, target: Path) -> ReportVolume | None:
        """Return the volume at ``target``."""
        return self._volumes.get(target)

    async def publish(self, volume: ReportVolume) -> None:
        """Return when the pod's folder, or an empty one after an error, is at the target.

        Raises VolumeError (INVALID_ARGUMENT) for a second volume of one pod, which could have thousands.
        """
        if any(one.pod_uid == volume.pod_uid and one.target != volume.target for one in self._volumes.values()):
            raise VolumeError(
                VolumeCode.INVALID_ARGUMENT,
                f"pod {volume.pod_name} has a report volume already: keep one with volumeAttributes.report in its spec",
            )
        self._volumes[volume.target] = volume
        await self._uninterrupted.run(self._publish(volume))

    async def unpublish(self, target: Path) -> bool:
        """Unmount the volume at ``target``. Return True if there was one. Raises VolumeError."""
        if target not in self._volumes:
            return False
        await self._uninterrupted.run(self._unpublish(target))
        return True

    async def restore(self) -> None:
        """Forget volumes of deleted pods, remount volumes without a mount, and remove unused folders.

        Call this once after a start. Errors are logged: such pods read on, but cannot report.
        """
        await asyncio.gather(*map(self._restore, tuple(self._volumes.values())))
        try:
            await in_thread(_remove_others, self.root, {volume.pod_uid for volume in self._volumes.values()})
        except VolumeError as error:
            log.warning("folders of pods that are gone stay: %s", error)
        self._on_change()

    async def _restore(self, volume: ReportVolume) -> None:
        try:
            if await self._mounter.is_gone(volume.target):
                await self.unpublish(volume.target)
            elif not await self._mounter.is_alive(volume.target):
                await self._uninterrupted.run(self._publish(volume))
        except VolumeError as error:
            log.warning("the report volume of pod %s stays as it is: %s", volume.pod_name, error)

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
        """Return when the current volumes are in the table. One write serves all waiting calls."""
        self._changed += 1
        change = self._changed
        async with self._writing:
            if self._saved < change:
                written = self._changed
                await in_thread(self._file.save, tuple(self._volumes.values()))
                self._saved = written


def _make_folder(root: Path, uid: str) -> None:
    folder = root / uid
    folder.mkdir(exist_ok=True)
    os.chown(folder, -1, root.stat().st_gid, follow_symlinks=False)
    folder.chmod(_FOLDER_MODE)


def _make_empty(target: Path) -> None:
    with suppress(OSError):  # the container runtime then reports the problem with the pod's folder
        target.mkdir(mode=0o750, parents=True, exist_ok=True)


def _remove_folder(folder: Path) -> None:
    """Remove a pod's folder. Its contents belong to the listener, so no link in it is followed."""
    shutil.rmtree(folder, ignore_errors=True)


def _remove_others(root: Path, uids: set[str]) -> None:
    for folder in root.iterdir() if root.is_dir() else ():
        if folder.name not in uids:
            _remove_folder(folder)


def _from_wire(row: Mapping[str, Any]) -> ReportVolume:
    return _REPORT_VOLUME.validate_python({**row, "hints": read_hints(row.get("hints"))})


def _to_wire(volume: ReportVolume) -> dict[str, Any]:
    return vars(volume) | {"target": str(volume.target), "hints": hint_attributes(volume.hints)}
