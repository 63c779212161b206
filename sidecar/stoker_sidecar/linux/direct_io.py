"""Reads a file from the disk itself, past the page cache: nothing that pods have in memory is used or thrown out."""

import hashlib
import mmap
import os
import zlib
from errno import EINVAL
from pathlib import Path
from typing import Any

# One read; a multiple of every disk's block, in memory that is aligned to pages, as O_DIRECT wants.
_BLOCK = 4 * 1024 * 1024


class DirectReader:
    """``step`` until it returns 0, then ``crc`` and ``md5`` are of the whole file; ``close`` at last. Blocks. Raises OSError.

    On file systems that have no O_DIRECT (some that lie in memory) it reads as usual.
    """

    def __init__(self, path: Path, *, md5: bool) -> None:
        self._descriptor = _open(path)
        self._buffer = mmap.mmap(-1, _BLOCK)
        self._md5: Any = hashlib.md5(usedforsecurity=False) if md5 else None
        self.size = 0
        self.crc = 0

    @property
    def md5(self) -> str:
        """Of what was read; empty when it was not asked for."""
        return str(self._md5.hexdigest()) if self._md5 is not None else ""

    def step(self) -> int:
        """Read on; how many bytes, 0 at the end."""
        length = os.preadv(self._descriptor, [self._buffer], self.size)
        with memoryview(self._buffer)[:length] as piece:
            self.crc = zlib.crc32(piece, self.crc)
            if self._md5 is not None:
                self._md5.update(piece)
        self.size += length
        return length

    def close(self) -> None:
        """Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._buffer.close()
            self._descriptor = -1


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
    except OSError as error:
        if error.errno != EINVAL:
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
