"""Checksum files of a version: of the scrub, and of arrivals. Each has 8 bytes an inode."""

import os
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import NamedTuple, Self

from stoker_sidecar.linux.files import disk_errors
from stoker_sidecar.version.layout import VersionPaths

_RECORD = Struct("<Q")
_ARRIVAL_BYTES = 8
# Above the 32 bits of the CRC. The first tells a noted zero from a hole of the file; releases that do not know the
# second ignore it.
_NOTED, _PROVEN = 1 << 32, 1 << 33


class NotedSum(NamedTuple):
    """The CRC-32 of a pass. ``proven``: the file matched a checksum of the source, or of its arrival."""

    crc: int
    proven: bool


class ChecksumFile:
    """The checksums that scrubs took; a context manager. Blocks. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def get(self, ino: int) -> NotedSum | None:
        """Return the noted sum, or None. Sums of earlier releases are not proven."""
        data = os.pread(self._descriptor, _RECORD.size, ino * _RECORD.size)
        value = _RECORD.unpack(data)[0] if len(data) == _RECORD.size else 0
        return NotedSum(value & (_NOTED - 1), bool(value & _PROVEN)) if value & _NOTED else None

    def put(self, ino: int, crc: int, *, proven: bool) -> None:
        """Note the CRC-32 of a file."""
        os.pwrite(self._descriptor, _RECORD.pack(crc | _NOTED | (_PROVEN if proven else 0)), ino * _RECORD.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


def note_arrival(paths: VersionPaths, ino: int, crc64nvme: bytes) -> None:
    """Note the checksum of a file that arrived. Blocks. Raises DiskFull or CacheDiskFailed.

    An inode of a version is always the same object, so an entry stays right when the file is fetched again.
    """
    with disk_errors("the checksums"):
        descriptor = os.open(paths.arrived, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, crc64nvme, ino * _ARRIVAL_BYTES)
        finally:
            os.close(descriptor)


def arrival_of(paths: VersionPaths, ino: int) -> bytes | None:
    """Return the CRC-64/NVME of a file as it arrived; None when that is not known. Blocks. Raises OSError."""
    try:
        descriptor = os.open(paths.arrived, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        found = os.pread(descriptor, _ARRIVAL_BYTES, ino * _ARRIVAL_BYTES)
    finally:
        os.close(descriptor)
    return found if len(found) == _ARRIVAL_BYTES and any(found) else None
