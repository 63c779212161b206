"""Reads files with compressed copies in the cache, frame by frame, in a bounded amount of memory."""

import os
import threading
from array import array
from collections import OrderedDict

import trio

from stoker_sidecar.fuse.open_files import Descriptors, is_in_memory
from stoker_sidecar.version.packed_copy import read_frame, read_table
from stoker_sidecar.version.seekable import FRAME

# Copies kept open. A table takes 64 KiB for the largest file, and 64 bytes per megabyte.
_OPEN = 64
# Cached frames that were read in part: 4 MiB in total. Sequential readers take whole frames, which are not cached.
_FRAMES = 32
# Files up to this size are unpacked without a thread if they are in the page cache: a tenth of a millisecond.
_AT_ONCE = 64 * 1024


class PackedFiles:
    """The open compressed copies. For one event loop, with threads for slow work."""

    def __init__(self) -> None:
        self._descriptors = Descriptors(_OPEN)
        self._lock = threading.Lock()  # for the two below
        self._tables: OrderedDict[int, array[int]] = OrderedDict()
        self._frames: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    @property
    def kept_bytes(self) -> int:
        """Return the bytes of cached frames."""
        with self._lock:
            return sum(map(len, self._frames.values()))

    async def read(self, path: bytes, ino: int, size: int, offset: int, length: int) -> bytes:
        """Read bytes of the file ``ino`` of ``size`` bytes from its copy at ``path``.

        ``length`` must not exceed the end. Raises OSError, FileNotFoundError without a copy. Never returns other bytes
        than the file's.
        """
        try:
            with self._descriptors.borrow(ino, lambda: self._open(path, ino)) as fd:
                if size <= _AT_ONCE and is_in_memory(fd, 0, 1):
                    return self._read(fd, ino, size, offset, length)
                return await trio.to_thread.run_sync(self._read, fd, ino, size, offset, length)
        except OSError:
            self.forget(ino)
            raise

    def forget(self, ino: int) -> None:
        """Reopen the copy at the next read."""
        self._descriptors.forget(ino)
        with self._lock:
            self._drop(ino)

    def close(self) -> None:
        """Close all."""
        self._descriptors.close()

    def _open(self, path: bytes, ino: int) -> int:
        with self._lock:
            self._drop(ino)  # it may have been replaced
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)

    def _drop(self, ino: int) -> None:
        self._tables.pop(ino, None)
        for key in [key for key in self._frames if key[0] == ino]:
            del self._frames[key]

    def _read(self, fd: int, ino: int, size: int, offset: int, length: int) -> bytes:
        """Read, possibly in a thread."""
        table, end, parts = self._table(fd, ino, size), offset + length, []
        for frame in range(offset // FRAME, -(-end // FRAME)):
            start = frame * FRAME
            data = self._frame(fd, table, ino, frame, size)
            part = data[max(0, offset - start) : end - start]
            if len(part) < len(data):
                self._keep(ino, frame, data)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _table(self, fd: int, ino: int, size: int) -> "array[int]":
        with self._lock:
            table = self._tables.get(ino)
        if table is None:
            table = read_table(fd, size)
            with self._lock:
                self._tables[ino] = table
                while len(self._tables) > _OPEN:
                    self._tables.popitem(last=False)
        return table

    def _frame(self, fd: int, table: "array[int]", ino: int, frame: int, size: int) -> bytes:
        with self._lock:
            known = self._frames.get((ino, frame))
        return known if known is not None else read_frame(fd, table, frame, size)

    def _keep(self, ino: int, frame: int, data: bytes) -> None:
        with self._lock:
            self._frames[ino, frame] = data
            self._frames.move_to_end((ino, frame))
            while len(self._frames) > _FRAMES:
                self._frames.popitem(last=False)
