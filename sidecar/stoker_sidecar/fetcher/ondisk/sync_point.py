"""The last sync of a version to its disk: which files it covered, and when it began."""

import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from stoker_sidecar.linux.files import sync_file_system
from stoker_sidecar.version.layout import VersionPaths


@dataclass(frozen=True)
class SyncPoint:
    """The last sync. ``covered``: a byte an inode, 1 for files in the tree; ``began_ns`` since 1970."""

    covered: bytes = b""
    began_ns: int = 0

    @classmethod
    def read(cls, paths: VersionPaths) -> Self:
        """Read the marker. One that is missing, damaged, or of a release that named no files covers nothing."""
        try:
            began = paths.synced.stat().st_mtime_ns
            return cls(zlib.decompress(paths.synced.read_bytes()), began)
        except (OSError, zlib.error):
            return cls()

    def of(self, ino: int) -> int:
        """Return when the sync that covered a file began; 0 when none did."""
        return self.began_ns if self.covered[ino : ino + 1] == b"\1" else 0

    def is_whole(self, files: int) -> bool:
        """Return whether the sync covered this number of files."""
        return self.covered.count(1) == files

    def narrow(self, paths: VersionPaths, here: bytes) -> None:
        """Remove inodes without a file in the tree from the marker. ``here``: a byte an inode. Blocks. Raises OSError.

        A file that is fetched again is then not covered, even if the clock was set back.
        """
        left = bytes(map(int.__and__, self.covered, here))
        if left != self.covered:
            started = _begin(paths, left)
            os.utime(started, ns=(self.began_ns, self.began_ns))
            started.rename(paths.synced)


def sync_tree(paths: VersionPaths, here: bytes) -> None:
    """Sync the file system, and note that this covered the files ``here``, a byte an inode. Blocks. Raises OSError."""
    # The marker is written first, so that it does not cover files that come during the sync. It counts by inode as
    # well as by date, because clocks are set back.
    started = _begin(paths, here)
    sync_file_system(paths.tree)
    started.rename(paths.synced)


def _begin(paths: VersionPaths, covered: bytes) -> Path:
    started = paths.folder / "syncing"
    started.write_bytes(zlib.compress(covered, 1))
    return started
