"""Lists the warm files of pods' Datasets, in a file in each pod's report folder, while the Datasets are warming."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stoker_sidecar.agent.pods.report_link import ReportingPods
from stoker_sidecar.agent.pods.warm_snapshots import WarmSnapshot, file_name, read_snapshot, write_beneath
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.threads import in_thread, to_its_end
from stoker_sidecar.volumes.core.publish import Published, VersionKey
from stoker_sidecar.volumes.versions_on_disk import CacheFolders

log = logging.getLogger(__name__)
# Seconds between two looks; between two snapshots of a version; and the rest after a snapshot as a multiple of its
# duration: some 2 % of a core, because the snapshot itself pauses.
LOOK_SECONDS, _RENEW_SECONDS, _REST = 5.0, 10.0, 20.0


@dataclass(frozen=True)
class _Taken:
    """A snapshot, and the earliest time of the next one, in seconds of the clock."""

    snapshot: WarmSnapshot
    again: float


class WarmFileList:
    """Writes the lists for all pods of a node. ``run`` it; not thread-safe.

    ``root`` is the parent of the report folders. There is no list for a version that was complete when its pod started:
    all files are warm.
    """

    def __init__(
        self,
        pods: ReportingPods,
        mounted: Callable[[], Iterable[Published]],
        folders: CacheFolders,
        root: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pods = pods
        self._mounted = mounted
        self._folders = folders
        self._root = root
        self._clock = clock
        self._taken: dict[VersionKey, _Taken] = {}
        self._written: dict[tuple[str, str], WarmSnapshot] = {}
        self._ended = False

    async def run(self) -> None:
        """Update periodically, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Update due lists. Errors of one version or pod are logged, and do not affect the rest."""
        reporting = {volume.pod_uid for volume in self._pods.all()}
        wanted: dict[tuple[str, str], VersionKey] = {}
        for row in self._mounted():
            name = file_name(row.request.dataset)
            if row.request.pod_uid in reporting and name is not None:
                wanted.setdefault((row.request.pod_uid, name), (row.uid, row.version))
        self._taken = {key: taken for key, taken in self._taken.items() if key in wanted.values()}
        self._written = {place: snapshot for place, snapshot in self._written.items() if place in wanted}
        for version in dict.fromkeys(wanted.values()):
            await self._renew(version)
        for place, version in wanted.items():
            taken = self._taken.get(version)
            if taken is not None and taken.snapshot != self._written.get(place):
                await self._write(place, taken.snapshot)

    async def _renew(self, version: VersionKey) -> None:
        taken = self._taken.get(version)
        paths = self._folders.paths(*version)
        if paths is None or (taken is not None and (taken.snapshot.is_whole or self._clock() < taken.again)):
            return
        if taken is None and is_there(paths.complete):
            return
        began = self._clock()
        read = partial(read_snapshot, ended=lambda: self._ended)
        try:
            reading = asyncio.ensure_future(asyncio.to_thread(self._folders.go_through, read, paths))
            snapshot = await to_its_end(reading, hurry=self._hurry)
        except (SidecarError, OSError, ValueError) as error:  # a name that is not UTF-8
            log.debug("warm files of version %s cannot be listed: %s", version[1][:12], error)
            return
        now = self._clock()
        self._taken[version] = _Taken(snapshot, now + max(_RENEW_SECONDS, _REST * (now - began)))

    def _hurry(self) -> None:
        self._ended = True

    async def _write(self, place: tuple[str, str], snapshot: WarmSnapshot) -> None:
        self._written[place] = snapshot
        if not snapshot.content:
            return
        try:
            await in_thread(write_beneath, self._root, *place, snapshot.content)
        except OSError as error:
            log.info("the warm file list of pod %s cannot be written: %s", place[0], error)
