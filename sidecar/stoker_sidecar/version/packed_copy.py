"""Compressed copies on the disk: written under a temporary name, read a frame at a time. Blocks."""

import errno
import os
from array import array
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import time_ns
from typing import BinaryIO

from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.version.seekable import (
    FRAME,
    FramePacker,
    decode_table,
    encode_table,
    frame_count,
    frame_length,
    table_length,
    unpack,
)

_MODE = 0o444
_SUFFIX = ".zst"
_TEMPORARY = ".tmp"
# Bytes to pack before checking if the copy becomes small enough.
_TRY = 8 * FRAME


@dataclass(frozen=True)
class CopyOrder:
    """Parameters of a copy: ``level`` of zstd, and ``least_ratio``, the required compression ratio.

    ``ended`` is called after each frame, and returns True to abort.
    """

    level: int
    least_ratio: float
    ended: Callable[[], bool] = lambda: False


def write_copy(source: Path, target: Path, entry: Entry, order: CopyOrder) -> int:
    """Write the copy of a complete file. Return its bytes on the disk, or 0 without a copy, if it would be too large.

    After an OSError there is no copy either.
    """
    target.parent.mkdir(exist_ok=True)
    temporary = target.with_name(f"{entry.ino}.{time_ns():x}{_TEMPORARY}")
    try:
        with source.open("rb", buffering=0) as data, temporary.open("wb") as out:
            written = _pack(data.fileno(), out, entry.size, order)
        if written:
            temporary.chmod(_MODE)
            os.utime(temporary, ns=(entry.mtime_ns, entry.mtime_ns))
            temporary.rename(target)
        return written
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _pack(source: int, out: BinaryIO, size: int, order: CopyOrder) -> int:
    lengths: list[int] = []
    packer, packed, most = FramePacker(order.level), table_length(size), size / order.least_ratio
    for offset in range(0, size, FRAME):
        frame = packer.pack(_read_exactly(source, frame_length(size, len(lengths)), offset))
        out.write(frame)
        lengths.append(len(frame))
        packed += len(frame)
        hopeless = offset >= _TRY and packed * order.least_ratio > 2 * (offset + FRAME)
        if packed > most or hopeless or order.ended():
            return 0
    out.write(encode_table(lengths, size))
    return packed


def read_table(descriptor: int, size: int) -> "array[int]":
    """Return the offsets of frames in an open copy. ``size`` is the file's. Raises OSError."""
    packed_size, length = os.fstat(descriptor).st_size, table_length(size)
    if packed_size < length:
        raise OSError(errno.EIO, "a compressed copy is damaged: it has no table")
    return decode_table(_read_exactly(descriptor, length, packed_size - length), size, packed_size)


def read_frame(descriptor: int, table: "array[int]", frame: int, size: int) -> bytes:
    """Return the bytes of a frame. Raises OSError."""
    start = table[frame]
    return unpack(_read_exactly(descriptor, table[frame + 1] - start, start), frame_length(size, frame))


def read_copy(path: Path, size: int) -> bytes:
    """Return a whole file from its copy. ``size`` is the file's. Raises OSError."""
    with path.open("rb", buffering=0) as file:
        table = read_table(file.fileno(), size)
        return b"".join(read_frame(file.fileno(), table, frame, size) for frame in range(frame_count(size)))


def is_copy_readable(path: Path, size: int, offset: int, length: int) -> bool:
    """Return True if these bytes of a file can be read from its copy."""
    try:
        with path.open("rb", buffering=0) as file:
            table = read_table(file.fileno(), size)
            for frame in range(offset // FRAME, -(-min(offset + length, size) // FRAME)):
                read_frame(file.fileno(), table, frame, size)
    except OSError:
        return False
    return True


def copies_in(folder: Path) -> dict[int, os.stat_result]:
    """Return the copies in a folder by inode, and delete incomplete ones. Raises OSError.

    Their contents are not checked: checksums find a damaged one when it is read.
    """
    found: dict[int, os.stat_result] = {}
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            ino, _, rest = entry.name.partition(".")
            if f".{rest}" == _SUFFIX and ino.isascii() and ino.isdigit():
                found[int(ino)] = entry.stat(follow_symlinks=False)
            else:
                with suppress(OSError):  # not a file, created by someone else
                    os.unlink(entry.path)  # noqa: PTH108 -- scandir's
    return found


def _read_exactly(descriptor: int, length: int, offset: int) -> bytes:
    data = os.pread(descriptor, length, offset)
    while len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            raise OSError(errno.EIO, "a file is shorter than it should be")
        data += more
    return data
