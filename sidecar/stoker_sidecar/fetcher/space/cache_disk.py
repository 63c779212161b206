"""One cache folder as a whole: free space, health, sync, deletion at leisure, and what an unclean stop leaves."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from errno import EIO, ENODEV
from pathlib import Path
from uuid import uuid4

from stoker_sidecar.fetcher.core.room import free_bytes
from stoker_sidecar.linux.files import FULL
from stoker_sidecar.version.layout import CachePaths, VersionPaths

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PROBE_BYTES = 4096


def space_of(folder: Path) -> tuple[int, int]:
    """Return the bytes that its file system has left, and has in all. Raises OSError."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


@dataclass(eq=False)
class CacheDisk:
    """One cache folder as a whole. ``floor_share`` of its disk, ``floor_most`` bytes at most, is left free.

    ``clock``: monotonic seconds. ``trouble``: why it is out of service, a sentence; empty while it is in service.
    """

    paths: CachePaths
    floor_share: float
    floor_most: int
    clock: Callable[[], float]
    memory: bool = False
    space: Callable[[Path], tuple[int, int]] = space_of
    trouble: str = ""
    _available: int = 0
    _total: int = 0
    _asked: float = field(default=float("-inf"))
    _mounted: bool = False

    def free(self) -> int:
        """Return the bytes that files may take that are to stay: what is available, less the floor."""
        self._ask()
        return free_bytes(self._available, self._total, self.floor_share, self.floor_most)

    def available(self) -> int:
        """Return the bytes that the file system has left; asked of the kernel once a second at most.

        0 when it does not say.
        """
        self._ask()
        return self._available

    @property
    def total(self) -> int:
        """Bytes of the file system."""
        self._ask()
        return self._total

    def forget(self) -> None:
        """Ask the kernel anew next time: much has changed."""
        self._asked = float("-inf")

    def _ask(self) -> None:
        now = self.clock()
        if now - self._asked < 1.0:
            return
        self._asked = now
        try:
            self._available, self._total = self.space(self.paths.root)
        except OSError:
            self._available = 0  # the next look at its health says why

    def open(self) -> None:
        """Make the folders, empty the trash, and mark what an unclean stop made doubtful. Blocks. Raises OSError."""
        self._make_folders()
        for path in self.paths.trash.iterdir():
            shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(self.paths.transients, ignore_errors=True)
        boot = _BOOT_ID.read_text().strip()
        if not self.paths.boot.exists() or self.paths.boot.read_text() != boot:
            self._doubt_versions()
            self.paths.boot.write_text(boot)

    def look(self) -> None:
        """Try the folder, by a small file that is written through to the disk and read again; sets ``trouble``. Blocks.

        A folder that was deleted is made anew, empty. A full disk is no trouble: what is in it can be read.
        """
        was_troubled = bool(self.trouble)
        self.forget()
        try:
            self.open() if was_troubled else self._make_folders()
            self._try()
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
