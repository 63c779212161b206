"""One cache folder as a whole: free space, health, sync, deletion at leisure, and what an unclean stop leaves."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from errno import EIO, ENODEV
from itertools import count
from pathlib import Path
from uuid import uuid4

from stoker_sidecar.errors import DiskFull
from stoker_sidecar.linux.files import FULL
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.wire.disk_floor import NOTHING, DiskFloor, DiskSpace

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PROBE_BYTES = 4096
# Below the folder of datasets: lists of files that were being made or fetched, none of which is gone on with.
_UNFINISHED_LISTS = "*/manifest.*"
# Bytes. No dataset can be read without its list of files, and a disk that others fill is no reason against a small one.
_SMALL_LIST = 4 * 1024**2
# What people can do about a disk that has reached its floor.
MORE_BYTES = "free space, set cache.quota, or lower the chart's sidecar.floor.bytes"
MORE_INODES = "delete small files, make the file system with more inodes, or lower the chart's sidecar.floor.inodes"


def space_of(folder: Path) -> DiskSpace:
    """Return what its file system has left, and has in all. Raises OSError."""
    found = os.statvfs(folder)
    block = found.f_frsize
    return DiskSpace(found.f_bavail * block, found.f_blocks * block, found.f_favail, found.f_files)


@dataclass(eq=False)
class CacheDisk:
    """One cache folder as a whole, of whose disk ``floor`` is left free.

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
        """Return the bytes that files may take that are to stay; none while there is no inode for them."""
        self._ask()
        return self._free

    def free_inodes(self) -> int:
        """Return how many files there may be more that are to stay."""
        self._ask()
        return self._free_inodes

    def check_room_for_list(self, what: str, need: int) -> None:
        """Raise DiskFull unless a list of files fits that takes ``need`` more bytes; a small one always does.

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
        """Return the bytes that the file system has left; asked of the kernel once a second at most.

        0 when it does not say.
        """
        self._ask()
        return self._space.available

    def forget(self) -> None:
        """Ask the kernel anew next time: much has changed."""
        self._asked = float("-inf")

    def _ask(self) -> None:
        now = self.clock()
        if now - self._asked < 1.0:
            return
        self._asked = now
        try:
            self._space = self.space(self.paths.root)
        except OSError:
            self._space = DiskSpace(0, self._space.total)  # the next look at its health says why
        # Reckoned here, since they are asked for several times a file.
        self._free, self._free_inodes = self.floor.bytes_left(self._space), self.floor.inodes_left(self._space)

    def open(self, *, returned: bool = False) -> None:
        """Make the folders, throw away what a kill left, and mark what is doubtful now. Blocks. Raises OSError.

        What is thrown away is deleted by ``empty_trash``, which may take minutes, while readers are served.
        ``returned``: the disk was out of service, and nobody knows which of its unwritten bytes it lost.
        """
        self._make_folders()
        unfinished = () if returned else self.paths.datasets.glob(_UNFINISHED_LISTS)
        for left in (self.paths.transients, *unfinished):
            with suppress(FileNotFoundError):
                left.rename(self.paths.trash / uuid4().hex)
        boot = _BOOT_ID.read_text().strip()
        if returned or not self.paths.boot.exists() or self.paths.boot.read_text() != boot:
            self._doubt_versions()
            self.paths.boot.write_text(boot)

    def empty_trash(self) -> None:
        """Delete what was thrown away before, as far as the disk lets go of it. Blocks, perhaps for minutes."""
        with suppress(OSError):
            for path in self.paths.trash.iterdir():
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        self.forget()

    def look(self) -> None:
        """Try the folder, by a small file that is written through to the disk and read again; sets ``trouble``. Blocks.

        A folder that was deleted is made anew, empty. A full disk is no trouble: what is in it can be read.
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
        """Begin a place for single files that are to be deleted. Raises OSError."""
        folder = self.paths.trash / uuid4().hex
        folder.mkdir()
        return Rubbish(folder, self.forget)

    def _make_folders(self) -> None:
        for folder in (self.paths.datasets, self.paths.trash):
            folder.mkdir(parents=True, exist_ok=True)
        mounted = self.paths.root.stat().st_dev != self.paths.root.parent.stat().st_dev
        if self._mounted and not mounted:
            # Filling the disk below instead could stop the node.
            raise OSError(ENODEV, "the disk that was mounted there is not mounted any more")
        self._mounted = mounted

    def _try(self) -> None:
        probe, wrote = self.paths.root / "probe", os.urandom(_PROBE_BYTES)
        try:
            with probe.open("wb", buffering=0) as file:
                file.write(wrote)
                os.fsync(file.fileno())
            if probe.read_bytes() != wrote:
                raise OSError(EIO, "what is written to it is read back differently")
        except OSError as error:
            if error.errno not in FULL:
                raise

    def _doubt_versions(self) -> None:
        # A chunk map may have reached the disk before its chunk; whole files are looked at when the version is opened.
        for parts in self.paths.datasets.glob("*/versions/*/parts"):
            shutil.rmtree(parts, ignore_errors=True)
        for tree in self.paths.datasets.glob("*/versions/*/tree"):
            version = VersionPaths(tree.parent)
            version.doubtful.touch()
            version.complete.unlink(missing_ok=True)


class Rubbish:
    """Files of a cache folder that are out of sight and wait to be deleted. ``deleted`` is called when they are."""

    def __init__(self, folder: Path, deleted: Callable[[], None]) -> None:
        self._folder = folder
        self._deleted = deleted
        self._names = count()

    def take(self, path: Path) -> None:
        """Take a file out of where it is; one that is not there is gone already. Raises OSError."""
        with suppress(FileNotFoundError):
            path.rename(self._folder / str(next(self._names)))

    def delete(self) -> None:
        """Delete all. Blocks, perhaps for long."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._deleted()
