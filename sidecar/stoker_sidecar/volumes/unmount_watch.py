"""Mounts again what another program has unmounted, such as an administrator with `umount -l`."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Protocol

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.linux.mounts import mountinfo
from stoker_sidecar.linux.mounts.mountinfo import Mount
from stoker_sidecar.volumes.core.publish import Published, PublishRequest

log = logging.getLogger(__name__)

# A mount that is missing at two looks is mounted again, so within a minute.
LOOK_SECONDS = 20.0


class RestorableVolumes(Protocol):
    """The mounted volumes of a machine."""

    def all(self) -> tuple[Published, ...]:
        """Return every volume's record."""

    async def serve_again(self, record: Published) -> None:
        """Mount the FUSE server of the volume's version where it belongs. Raises VolumeError."""

    async def mount_again(self, request: PublishRequest) -> None:
        """Make sure that a published volume is mounted and responds. Raises VolumeError."""


class UnmountWatch:
    """Looks for mounts that are gone.

    Running containers have their own copy of a mount and read on. A container that starts would see an empty folder.
    ``mount_root`` is the folder of the FUSE mounts. ``read`` returns the mounts of this process.
    """

    def __init__(
        self,
        volumes: RestorableVolumes,
        mount_root: Path,
        read: Callable[[], Collection[Mount]] = mountinfo.read,
    ) -> None:
        self._volumes = volumes
        self._mount_root = mount_root
        self._read = read
        self._suspected: frozenset[Path] = frozenset()

    async def run(self) -> None:
        """Look at intervals, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Mount again what was also missing at the last look: a volume may be published or unpublished right now."""
        records = self._volumes.all()
        missing = await asyncio.to_thread(self._missing, records)
        lasting = missing & self._suspected
        self._suspected = missing - lasting
        for record in records:  # first the servers, which the volumes show
            if (served := self._mountpoint(record)) in lasting:
                await self._restore(record, served, self._volumes.serve_again(record))
        for record in records:
            if record.request.target in lasting:
                await self._restore(record, record.request.target, self._volumes.mount_again(record.request))

    def _missing(self, records: Collection[Published]) -> frozenset[Path]:
        """Return the mount points without a mount. Without its folder, a volume's pod was removed."""
        seen = {row.target for row in self._read()}
        wanted = {one.request.target for one in records} | {self._mountpoint(one) for one in records if one.fuse}
        return frozenset(path for path in wanted if _as_seen(path) not in seen and path.parent.exists())

    def _mountpoint(self, record: Published) -> Path:
        return self._mount_root / record.uid / record.version

    async def _restore(self, record: Published, place: Path, restoring: Coroutine[None, None, None]) -> None:
        try:
            await restoring
        except SidecarError as error:
            log.error("%s was unmounted, and new containers of %s see no data: %s", place, record.request.pod, error)
        else:
            log.warning("%s was unmounted by another program and is mounted again", place)


def _as_seen(path: Path) -> str:
    """Return a mount point as mountinfo shows it. It is not accessed, because it may be dead."""
    return str(path.parent.resolve() / path.name)
