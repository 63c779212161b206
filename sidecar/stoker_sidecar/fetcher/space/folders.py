"""The node's cache folders together: places of versions, of new versions, and the folders in service."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.errors import CacheDiskFailed
from stoker_sidecar.fetcher.space.cache_disk import LEAST_ROOM, CacheDisk
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.version.layout import DatasetPaths, VersionPaths
from stoker_sidecar.wire.config.folders import FolderRoom, choose_folder

# Seconds: a folder that is out of service is tried again this often; one in service is looked at on every call.
_TRY_AGAIN = 60.0


@dataclass(frozen=True)
class DatasetHome:
    """A folder, and a dataset's present or future files in it."""

    disk: CacheDisk
    dataset: DatasetPaths


class CacheDisks:
    """The cache folders of the node, the preferred one first.

    A version lies whole in one of them, since a bind mount shows one tree.
    """

    def __init__(self, disks: Sequence[CacheDisk], clock: Callable[[], float]) -> None:
        self.disks = tuple(disks)
        self._clock = clock
        self._tried: dict[CacheDisk, float] = {}

    def open(self) -> None:
        """Prepare each; one that cannot be used is out of service from the start. Blocks.

        Raises CacheDiskFailed when none can be used.
        """
        for disk in self.disks:
            try:
                disk.open()
            except OSError as error:
                disk.trouble = f"the cache folder {disk.paths.root} cannot be used: {error.strerror or error}"
        if all(disk.trouble for disk in self.disks):
            raise CacheDiskFailed("; ".join(disk.trouble for disk in self.disks))

    def look(self) -> bool:
        """Check the health of all folders; those out of service once a minute. Return True on a change. Blocks."""
        now, before = self._clock(), [bool(disk.trouble) for disk in self.disks]
        for disk in self.disks:
            if not disk.trouble or now - self._tried.get(disk, float("-inf")) >= _TRY_AGAIN:
                disk.look()
                self._tried[disk] = now
        return before != [bool(disk.trouble) for disk in self.disks]

    @property
    def serving(self) -> tuple[CacheDisk, ...]:
        """The folders in service. If none is, all folders, since their files may still be readable."""
        return tuple(disk for disk in self.disks if not disk.trouble) or self.disks

    def find(self, uid: str, digest: str) -> VersionPaths | None:
        """Find the version whose manifest is in a serving folder, a whole one first.

        Raises NotConfigured for an invalid name.
        """
        found = [
            paths for disk in self.serving if is_there((paths := disk.paths.dataset(uid).version(digest)).manifest)
        ]
        return min(found, key=lambda paths: not is_there(paths.complete), default=None)

    def disk_of(self, paths: VersionPaths) -> CacheDisk:
        """Return the folder that a version lies in."""
        return next(disk for disk in self.disks if paths.folder.is_relative_to(disk.paths.root))

    def digests(self, uid: str) -> list[str]:
        """List the versions of a dataset in serving folders."""
        return sorted({digest for disk in self.serving for digest in _digests(disk, uid)})

    def home(self, uid: str) -> DatasetHome:
        """Return the home of a dataset's files that belong to no single version.

        The serving folder that has it already, else the best.
        """
        for disk in self.serving:
            if is_there((paths := disk.paths.dataset(uid)).folder):
                return DatasetHome(disk, paths)
        return self.place(uid, 0)

    def place(self, uid: str, need: int) -> DatasetHome:
        """Choose the folder for a new version of ``need`` bytes."""
        rooms = [FolderRoom(str(disk.paths.root), disk.memory, disk.free(), not disk.trouble) for disk in self.disks]
        homes = {str(disk.paths.root) for disk in self.serving if _digests(disk, uid)}
        chosen = choose_folder(rooms, need, homes)
        path = chosen.path if chosen is not None else str(self.disks[0].paths.root)
        disk = next(disk for disk in self.disks if str(disk.paths.root) == path)
        return DatasetHome(disk, disk.paths.dataset(uid))

    def is_lost(self, paths: VersionPaths) -> bool:
        """Return True if a version must restart.

        It is gone, or its folder is out of service while a different one works. Or its folder was out of service and is
        back: then it is opened again, which proves its files.
        """
        if self.disk_of(paths) not in self.serving:
            return True
        return not (is_there(paths.tree) and is_there(paths.manifest)) or is_there(paths.doubtful)

    def is_in_doubt(self, paths: VersionPaths) -> bool:
        """Return True if its folder is out of service, or was since the version was opened. It is then opened again.

        A sync would mark bytes as safe that the disk lost, and no check would prove them.
        """
        return bool(self.disk_of(paths).trouble) or self.is_lost(paths)

    def transient_folder(self, paths: VersionPaths) -> Path:
        """Return the folder for files that are read through.

        It is next to the version, or in memory if the disk has no room even for those. Raises OSError.
        """
        if self.disk_of(paths).available() >= LEAST_ROOM:
            return paths.parts
        spare = (disk for disk in self.serving if disk.memory and disk.available() >= LEAST_ROOM)
        disk = next(spare, None)
        if disk is None:
            return paths.parts
        folder = disk.paths.transients / f"{paths.folder.parent.parent.name}-{paths.folder.name}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def drop_copies(self, uid: str, paths: VersionPaths) -> None:
        """Drop copies of a version that restarted in a different folder while theirs was out of service. Blocks."""
        for disk in self.serving:
            copy = disk.paths.dataset(uid).version(paths.folder.name)
            if copy != paths and is_there(copy.folder):
                disk.discard(copy.folder)()

    def discard(self, uid: str) -> Callable[[], None]:
        """Remove a dataset from all folders now; the result deletes it. Files in a failed folder go when it is back."""
        deletions = []
        for disk in self.disks:
            with suppress(OSError):
                deletions.append(disk.discard(disk.paths.dataset(uid).folder))

        def delete_all() -> None:
            for delete in deletions:
                delete()

        return delete_all

    def orphans(self, known: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Find the datasets in serving folders that are not ``known``, and the versions of each."""
        found: set[str] = set()
        for disk in self.serving:
            with suppress(OSError):
                found |= {path.name for path in disk.paths.datasets.iterdir()}
        return {uid: tuple(self.digests(uid)) for uid in sorted(found.difference(known))}


def _digests(disk: CacheDisk, uid: str) -> list[str]:
    """List the versions of a dataset in one folder: none while its disk does not answer."""
    with suppress(OSError):
        return list(disk.paths.dataset(uid).digests())
    return []
