"""One cache folder: free space, health, sync, background deletion, and recovery after an unclean stop."""

import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from errno import EIO, ENODEV
from itertools import count
from pathlib import Path
from uuid import uuid4

from stoker_sidecar.errors import DiskFull
from stoker_sidecar.fetcher.ondisk.recovery.quarantine import set_aside
from stoker_sidecar.linux.files import FULL, is_there
from stoker_sidecar.linux.hardware import boot_id
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.wire.config.disk_floor import NOTHING, DiskFloor, DiskSpace

# Bytes of a disk that passing copies leave free: the chunk of one reader, and the one behind it.
LEAST_ROOM = 16 * 1024**2
_LEAST_INODES = 16  # that they leave free: for downloads in flight
# Inodes that cached files leave free at any floor. A file that is read through needs one, also if no other can be
# dropped for it. A cached file with folders takes several.
_FOR_PASSING = 64

_PROBE_BYTES = 4096
# Leftover lists of files below the folder of datasets. They are never continued.
_UNFINISHED_LISTS = "*/manifest.*"
# Bytes. A dataset is unreadable without its list of files, so a small list is written even to a full disk.
_SMALL_LIST = 4 * 1024**2
# Seconds for which the kernel's figures of a disk are cached: normally, and below this number of bytes for files that
# stay.
_FRESH, _FRESH_WHEN_TIGHT, _TIGHT = 1.0, 0.02, 256 * 1024**2
# Advice for users about a disk at its floor.
MORE_BYTES = "free space, set cache.quota, or lower the chart's sidecar.floor.bytes"
MORE_INODES = "delete small files, make the file system with more inodes, or lower the chart's sidecar.floor.inodes"


def space_of(folder: Path) -> DiskSpace:
    """Return the free and total space of its file system. Raises OSError."""
    found = os.statvfs(folder)
    block = found.f_frsize
    return DiskSpace(found.f_bavail * block, found.f_blocks * block, found.f_favail, found.f_files)


@dataclass(eq=False)
class CacheDisk:
    """One cache folder. ``floor`` of its disk is left free.

    ``clock``: monotonic seconds. ``trouble``: why it is out of service, a sentence; empty while it is in service.
    """

    paths: CachePaths
    floor: DiskFloor
    clock: Callable[[], float]
    memory: bool = False
    space: Callable[[Path], DiskSpace] = space_of
    trouble: str = ""
    _space: DiskSpace = NOTHING
    _asked: float = field(default=float("-inf"))
    _free: int = 0
    _free_inodes: int = 0
    _mounted: bool = False

    def free(self) -> int:
        """Return the free bytes for files that stay; 0 without a free inode."""
        self._ask()
        return self._free

    def free_inodes(self) -> int:
        """Return the number of further files that may stay."""
        self._ask()
        return self._free_inodes

    def check_room_for_list(self, what: str, need: int) -> None:
        """Raise DiskFull if a list of files needs ``need`` more bytes and does not fit. A small list always fits.

        ``what``: the sentence's subject.
        """
        if need < _SMALL_LIST:
            return
        self._ask()
        floor = self.floor.for_metadata()
        if floor.inodes_left(self._space) == 0:
            raise DiskFull(f"{what} is not written: the cache disk has too few inodes left; {MORE_INODES}")
        if floor.bytes_left(self._space) <= need:
            raise DiskFull(f"{what} is not written: the cache disk has too little space left; {MORE_BYTES}")

    def available(self) -> int:
        """Return the free bytes of the file system, at most a second old.

        0 if they are unknown.
        """
        self._ask()
        return self._space.available

    def is_short_of_inodes(self) -> bool:
        """Return True if the file system has hardly any inodes left."""
        self._ask()
        return self._space.inodes_total > 0 and self._space.inodes_available < _LEAST_INODES

    def forget(self) -> None:
        """Query the kernel again next time, after a large change."""
        self._asked = float("-inf")

    def _ask(self) -> None:
        now = self.clock()
        if now - self._asked < (_FRESH if self._free >= _TIGHT else _FRESH_WHEN_TIGHT):
            return
        self._asked = now
        try:
            self._space = self.space(self.paths.root)
        except OSError:
            self._space = DiskSpace(0, self._space.total)  # the next look at its health says why
        # Reckoned here, since they are asked for several times a file.
        self._free = self.floor.bytes_left(self._space)
        self._free_inodes = max(0, self.floor.inodes_left(self._space) - _FOR_PASSING)

    def open(self, *, returned: bool = False) -> None:
        """Make the folders, discard leftovers of a kill, and hide doubtful files. Blocks. Raises OSError.

        Discarded files are deleted by ``empty_trash``, which may take minutes, while readers are served. ``returned``:
        the disk was out of service, and may have lost unwritten bytes.
        """
        self._make_folders()
        unfinished = () if returned else self.paths.datasets.glob(_UNFINISHED_LISTS)
        for left in (self.paths.transients, *unfinished):
            with suppress(FileNotFoundError):
                left.rename(self.paths.trash / uuid4().hex)
        boot = boot_id()
        if returned or not self.paths.boot.exists() or self.paths.boot.read_text() != boot:
            self.doubt()
            self.paths.boot.write_text(boot)  # last: the agent mounts nothing from this disk before
        else:
            self._doubt(marker.parent for marker in self.paths.datasets.glob("*/versions/*/doubtful"))

    def empty_trash(self) -> None:
        """Delete discarded files, and ignore errors of the disk. Blocks, perhaps for minutes."""
        with suppress(OSError):
            for path in self.paths.trash.iterdir():
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        self.forget()

    def look(self) -> None:
        """Test the folder with a small file that is synced to the disk and read again. Set ``trouble``. Blocks.

        A deleted folder is created again, empty. A full disk is no trouble: its files can be read.
        """
        was_troubled = bool(self.trouble)
        self.forget()
        try:
            self._make_folders()
            self._try()
            if was_troubled:
                self.open(returned=True)
                self.empty_trash()
        except OSError as error:
            self.trouble = f"the cache folder {self.paths.root} is out of service: {error.strerror or error}"
        else:
            self.trouble = ""

    def discard(self, folder: Path) -> Callable[[], None]:
        """Rename ``folder`` out of the way now; the result deletes it, which may take long. Raises OSError."""
        target = self.paths.trash / uuid4().hex
        if folder.exists():
            folder.rename(target)

        def delete() -> None:
            shutil.rmtree(target, ignore_errors=True)
            self.forget()

        return delete

    def rubbish(self) -> "Rubbish":
        """Make a folder for single files to delete. Raises OSError."""
        folder = self.paths.trash / uuid4().hex
        folder.mkdir()
        return Rubbish(folder, self.forget)

    def _make_folders(self) -> None:
        for folder in (self.paths.datasets, self.paths.trash):
            folder.mkdir(parents=True, exist_ok=True)
        mounted = self.paths.root.stat().st_dev != self.paths.root.parent.stat().st_dev
        if self._mounted and not mounted:
            # Filling the disk below instead could stop the node.
            raise OSError(ENODEV, "its disk was unmounted")
        self._mounted = mounted

    def _try(self) -> None:
        probe, wrote = self.paths.root / "probe", os.urandom(_PROBE_BYTES)
        try:
            with probe.open("wb", buffering=0) as file:
                file.write(wrote)
                os.fsync(file.fileno())
            if probe.read_bytes() != wrote:
                raise OSError(EIO, "reads return other bytes than were written")
        except OSError as error:
            if error.errno not in FULL:
                raise

    def doubt(self) -> None:
        """Hide the files of all versions until each version is opened and checked. Raises OSError."""
        # A chunk map may have reached the disk before its chunk.
        for parts in self.paths.datasets.glob("*/versions/*/parts"):
            shutil.rmtree(parts, ignore_errors=True)
        self._doubt(self.paths.datasets.glob("*/versions/*"))

    @staticmethod
    def _doubt(folders: Iterable[Path]) -> None:
        for paths in map(VersionPaths, folders):
            if is_there(paths.tree) or is_there(paths.quarantine):
                set_aside(paths)


class Rubbish:
    """Files of a cache folder that are out of sight and wait to be deleted. ``deleted`` is called when they are."""

    def __init__(self, folder: Path, deleted: Callable[[], None]) -> None:
        self._folder = folder
        self._deleted = deleted
        self._names = count()

    def take(self, path: Path) -> None:
        """Move a file into the trash. A missing file is ignored. Raises OSError."""
        with suppress(FileNotFoundError):
            path.rename(self._folder / str(next(self._names)))

    def delete(self) -> None:
        """Delete all. Blocks, perhaps for long."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._deleted()
