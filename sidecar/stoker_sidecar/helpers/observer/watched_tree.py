"""One watched tree: its fanotify group, its folders by handle, and its observed opens."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.linux import fanotify
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.access_protocol import MOST_ROWS, AccessBatch, AccessRow

# Cached inode numbers by folder and name: a few MB. A manifest query takes as long as the rest of the work.
_KNOWN = 32_768
# Accesses waiting to be sent, in batches.
_MOST_WAITING = 4 * MOST_ROWS


class WatchedTree:
    """A tree of a version that a pod mounts.

    ``group`` is the descriptor of the fanotify group, closed at the end. ``folders`` has the manifest's inode numbers
    of marked folders by handle. ``share`` is the share of the version's files in these folders.
    """

    def __init__(self, watch: int, group: int, folders: Mapping[bytes, int], manifest: Manifest, share: float) -> None:
        self.watch = watch
        self._group = group
        self._folders = folders
        self._manifest = manifest
        self._share = share
        self._known: dict[tuple[int, bytes], int] = {}
        self._rows: list[AccessRow] = []
        self._opens = self._lost = 0
        self._seen = 0.0
        self._last = 0.0
        self._since: float | None = None

    def begin(self, clock: Callable[[], float]) -> int:
        """Drop queued events: observation starts now, with marks on. Raises OSError.

        Return the number of dropped events.
        """
        forgotten = self.forget()
        self._last = clock()
        self._since = self._since if self._since is not None else self._last
        return forgotten

    def forget(self) -> int:
        """Empty the kernel's queue. Return the number of its events. Raises OSError."""
        return fanotify.discard(self._group)

    def look(self, now: float, most: int) -> int:
        """Process opens since the last look. Return the number of events.

        At most ``most`` events are examined, as a sample of all: dropping the rest of the time would look like fewer
        opens. If the kernel's queue overflowed, events and time of this look are discarded, because a share of unknown
        size would distort the figures. Raises OSError and SidecarError.
        """
        found = fanotify.drain(self._group, most)
        before, self._last = self._last, now
        if not found.whole:
            self._lost += 1
            return found.number
        self._seen += now - before
        known = 0
        for event in found.opened:
            ino = self._ino(event.folder, event.name)
            if ino:
                known += 1
                if len(self._rows) < _MOST_WAITING:
                    self._rows.append(AccessRow(now, ino, 0, 0, event.pid))
        self._opens += round(known * found.number / max(1, len(found.opened)))
        return found.number

    def report(self, now: float) -> list[AccessBatch]:
        """Return the observations since the last report, in batches of bounded length.

        Unobserved time is reported with the next observation, which represents it.
        """
        since = self._since if self._since is not None else now
        if not self._seen:
            lost, self._lost = self._lost, 0
            return [AccessBatch(self.watch, now, now, 0.0, 0, lost=lost, files=self._share)] if lost else []
        share = min(1.0, self._seen / (now - since)) * self._share if now > since else 0.0
        rows, opens, lost = self._rows, self._opens, self._lost
        self._rows, self._opens, self._lost, self._seen, self._since = [], 0, 0, 0.0, now
        files = self._share
        first = AccessBatch(self.watch, since, now, share, opens, lost=lost, rows=rows[:MOST_ROWS], files=files)
        # Further batches carry only rows: figures count once.
        rest = (rows[at : at + MOST_ROWS] for at in range(MOST_ROWS, len(rows), MOST_ROWS))
        return [first, *(AccessBatch(self.watch, now, now, share, 0, rows=part, files=files) for part in rest)]

    @property
    def waiting(self) -> bool:
        """True if there are observations to report."""
        return bool(self._opens or self._lost)

    def close(self) -> None:
        """Close the group and the manifest."""
        os.close(self._group)
        self._manifest.close()

    def _ino(self, handle: bytes, name: bytes) -> int:
        """Return the file's inode number; 0 if the manifest does not have it."""
        folder = self._folders.get(handle)
        if folder is None:
            return 0
        key = folder, name
        ino = self._known.get(key)
        if ino is None:
            entry = self._manifest.lookup(folder, name)
            ino = 0 if entry is None or entry.is_dir else entry.ino
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = ino
        return ino


def read_table(descriptor: int) -> dict[bytes, int]:
    """Read the folders of a watch from the agent's memory file: lines of handle and inode number. Close the file.

    Raises ValueError and OSError.
    """
    os.lseek(descriptor, 0, os.SEEK_SET)  # the offset is shared with the agent and with earlier observers
    with open(descriptor, "rb") as file:
        rows = (line.split() for line in file)
        return {bytes.fromhex(handle.decode()): int(ino) for handle, ino in rows}


def open_tree(watch: int, manifest: str, share: float, group: int, table: int) -> WatchedTree:
    """Create a tree from the agent's watch. On SidecarError, OSError and ValueError, close the descriptors."""
    try:
        folders = read_table(table)
        return WatchedTree(watch, group, folders, Manifest.open(Path(manifest)), share)
    except (SidecarError, OSError, ValueError):
        os.close(group)
        raise
