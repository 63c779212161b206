"""Checksums of a version's files in one file, by inode: what the scrub found at first, to compare with later."""

import os
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import Self

_RECORD = Struct("<Q")
# Above the 32 bits of the CRC: tells a noted zero from a hole of the file.
_NOTED = 1 << 32


class Sums:
    """8 bytes an inode; a context manager. Blocks. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def get(self, ino: int) -> int | None:
        """The CRC-32 that was noted; None when none was."""
        data = os.pread(self._descriptor, _RECORD.size, ino * _RECORD.size)
        value = _RECORD.unpack(data)[0] if len(data) == _RECORD.size else 0
        return value & (_NOTED - 1) if value & _NOTED else None

    def put(self, ino: int, crc: int) -> None:
        """Note it."""
        os.pwrite(self._descriptor, _RECORD.pack(crc | _NOTED), ino * _RECORD.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
