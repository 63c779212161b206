"""What becomes of readers of a file that was found damaged and fetched again: its old inode, and who serves it."""

import asyncio
import logging
import os
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Self

from stoker_sidecar.linux.files import sync_file
from stoker_sidecar.version.manifest import Entry

_log = logging.getLogger(__name__)
_READABLE, _WRITABLE = 0o444, 0o644
_PIECE = 1024 * 1024


class Repairs:
    """Which files of which versions were repaired since this process started; whoever serves a version follows them."""

    def __init__(self) -> None:
        self._inodes: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._more = asyncio.Event()

    def add(self, uid: str, digest: str, ino: int) -> None:
        """Tell that what was kept of this file is to be looked at anew."""
        self._inodes[uid, digest].append(ino)
        self._more.set()
        self._more = asyncio.Event()

    async def follow(self, uid: str, digest: str) -> AsyncIterator[int]:
        """Yield the inodes of repaired files, from the first on, as it happens."""
        told = 0
        while True:
            more = self._more
            for ino in self._inodes.get((uid, digest), [])[told:]:
                told += 1
                yield ino
            await more.wait()


class DamagedFile:
    """A damaged file of a tree, kept open while another takes its name; a context manager, whose methods block.

    Programs and overlays that have it open go on reading this inode, whatever has its name: so it is mended as well.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = _open_for_writing(path)

    def heal(self, entry: Entry) -> None:
        """Write what now has its name into the old inode, where there is one. What the disk refuses is logged.

        The new one is synced: the last sync of the tree counts for its name.
        """
        try:
            sync_file(self._path)
            if self._descriptor < 0:
                return
            with self._path.open("rb", buffering=0) as fresh:
                if os.path.sameopenfile(fresh.fileno(), self._descriptor):
                    return
                _copy(fresh.fileno(), self._descriptor, entry)
        except OSError as error:
            _log.warning("who has the damaged %s open goes on reading that: %s", self._path.name, error.strerror)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def _open_for_writing(path: Path) -> int:
    """Open a file that nobody may write; -1 when it is not there, or its disk refuses."""
    try:
        path.chmod(_WRITABLE)
        try:
            return os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        finally:
            path.chmod(_READABLE)
    except OSError:
        return -1


def _copy(source: int, target: int, entry: Entry) -> None:
    for offset in range(0, entry.size, _PIECE):
        os.pwrite(target, os.pread(source, _PIECE, offset), offset)
    os.ftruncate(target, entry.size)
    os.utime(target, ns=(entry.mtime_ns, entry.mtime_ns))
