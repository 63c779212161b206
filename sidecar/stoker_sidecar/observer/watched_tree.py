"""One mounted tree that is watched: its fanotify group, its folders by handle, and what was seen of it."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.linux import fanotify
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.access_protocol import MOST_ROWS, AccessBatch, AccessRow

# Files whose inode number is remembered, by folder and name: a few MB. Asking the manifest takes as long as all else.
_KNOWN = 32_768
# Accesses that wait to be sent, in batches.
_MOST_WAITING = 4 * MOST_ROWS


class WatchedTree:
    """A tree of one version that some pod has mounted.

    ``group``: descriptor of the fanotify group, which is closed at the end. ``folders``: inode number of the manifest
    by folder handle, of those that are marked. ``share``: of the version's files that lie in them.
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
        """Forget what was queued before: what is seen counts from now on, with marks on. Raises OSError.

        Returns how many events there were.
        """
        forgotten = self.forget()
        self._last = clock()
        self._since = self._since if self._since is not None else self._last
        return forgotten

    def forget(self) -> int:
        """Empty the kernel's queue; returns how many events there were. Raises OSError."""
        return fanotify.discard(self._group)

    def look(self, now: float, most: int) -> int:
        """Take what was opened since the last look, and return how many events there were.

        ``most`` of them are looked at, and stand for the others: time of which a part is left out would be time in
        which little is opened. Where the kernel's queue overflowed, events and time of this look count for nothing: a
        share of unknown size would bend the figures. Raises OSError and SidecarError.
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
        """Return what was seen since the last report, in batches of bounded length.

        Time in which nobody looked is reported with the next that was seen, which stands for it.
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
        # The others bring rows alone: figures count once.
        rest = (rows[at : at + MOST_ROWS] for at in range(MOST_ROWS, len(rows), MOST_ROWS))
        return [first, *(AccessBatch(self.watch, now, now, share, 0, rows=part, files=files) for part in rest)]

    @property
    def waiting(self) -> bool:
        """Whether there is something to report."""
        return bool(self._opens or self._lost)

    def close(self) -> None:
        """Close the group and the manifest."""
        os.close(self._group)
        self._manifest.close()

    def _ino(self, handle: bytes, name: bytes) -> int:
        """Return the file's inode number; 0 for what the manifest does not have."""
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
    """Read the folders of a watch from the agent's memory file, which is closed: lines of handle and inode number.

    Raises ValueError and OSError.
    """
    os.lseek(descriptor, 0, os.SEEK_SET)  # the offset is shared with the agent, and with earlier observers
    with open(descriptor, "rb") as file:
        rows = (line.split() for line in file)
        return {bytes.fromhex(handle.decode()): int(ino) for handle, ino in rows}


def open_tree(watch: int, manifest: str, share: float, group: int, table: int) -> WatchedTree:
    """Take a watch of the agent's. Raises SidecarError, OSError and ValueError, and closes the descriptors then."""
    try:
        folders = read_table(table)
        return WatchedTree(watch, group, folders, Manifest.open(Path(manifest)), share)
    except (SidecarError, OSError, ValueError):
        os.close(group)
        raise
