"""The layout of a compressed copy: a zstd frame for each 128 KiB of the file, and a table of frames at the end.

It is zstd's seekable format, so `zstd -d` can read it. A reader knows the file's size from the manifest, so the copy
cannot determine memory use: each frame must have the expected length and a valid checksum. Otherwise reading raises
OSError, and never returns other bytes.
"""

import errno
import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.version_info < (3, 14):
    from backports import zstd
else:
    from compression import zstd

# The kernel's request size, so most reads need one frame. Ratios are a few percent below those of larger frames.
FRAME = 128 * 1024
# The table of a file of this size takes 64 KiB of memory, and the copy some 5 s. Larger files are not compressed.
MOST_SIZE = 1024**3
_WINDOW_LOG = 17  # of FRAME: a frame that needs more memory is invalid
_LONGEST = FRAME + 1024  # of a frame: incompressible data takes some bytes more
_CHECKSUM_FLAG = 0b100  # in the byte after a frame's magic number
_HEAD = Struct("<II")  # magic number of a skippable frame, and its length
_ENTRY = Struct("<II")  # compressed and whole length of a frame
_FOOT = Struct("<IBI")  # number of frames, descriptor (no checksums here: each frame has its own), magic number
_SKIPPABLE, _SEEKABLE = 0x184D2A5E, 0x8F92EAB1


class FramePacker:
    """Compresses the frames of files at one zstd level, each with its checksum. Not for concurrent threads."""

    def __init__(self, level: int) -> None:
        wanted = zstd.CompressionParameter
        self._compressor = zstd.ZstdCompressor(options={wanted.compression_level: level, wanted.checksum_flag: 1})

    def pack(self, data: bytes | memoryview) -> bytes:
        """Return the frame of at most FRAME bytes."""
        return self._compressor.compress(data, mode=zstd.ZstdCompressor.FLUSH_FRAME)


def unpack(frame: bytes, length: int) -> bytes:
    """Return the ``length`` bytes of a frame. Raises OSError if its checksum does not confirm exactly these."""
    if len(frame) < 5 or not frame[4] & _CHECKSUM_FLAG:
        raise _damaged("a frame has no checksum")
    unpacking = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})
    try:
        data = unpacking.decompress(frame, max_length=length)
        # The checksum after the data is verified only when decompression continues past all bytes.
        more = b"" if unpacking.eof else unpacking.decompress(b"", max_length=1)
    except zstd.ZstdError as error:
        raise _damaged(str(error)) from error
    if len(data) != length or more or not unpacking.eof or unpacking.unused_data:
        raise _damaged(f"a frame does not hold {length} bytes")
    return data


def frame_count(size: int) -> int:
    """Count the frames of a file of this size."""
    return -(-size // FRAME)


def frame_length(size: int, frame: int) -> int:
    """Return the number of the file's bytes in a frame."""
    return min(FRAME, size - frame * FRAME)


def table_length(size: int) -> int:
    """Return the size of the table for a file of this size."""
    return _HEAD.size + frame_count(size) * _ENTRY.size + _FOOT.size


def encode_table(lengths: Sequence[int], size: int) -> bytes:
    """Encode the table. ``lengths`` are those of compressed frames; ``size`` is the file's."""
    rows = (_ENTRY.pack(length, frame_length(size, frame)) for frame, length in enumerate(lengths))
    head, foot = _HEAD.pack(_SKIPPABLE, table_length(size) - _HEAD.size), _FOOT.pack(len(lengths), 0, _SEEKABLE)
    return b"".join((head, *rows, foot))


def decode_table(table: bytes, size: int, packed_size: int) -> "array[int]":
    """Return the offset of each frame, and finally that of the table.

    ``table`` is the last ``table_length(size)`` bytes of a copy of ``packed_size`` bytes. Raises OSError.
    """
    if len(table) != table_length(size):
        raise _damaged("its table is of another file")
    lengths = [length for length, _ in _ENTRY.iter_unpack(table[_HEAD.size : -_FOOT.size])]
    too_long = any(length > _LONGEST for length in lengths)
    if too_long or table != encode_table(lengths, size) or sum(lengths) + len(table) != packed_size:
        raise _damaged("its table is not whole")
    return array("Q", accumulate(lengths, initial=0))


def _damaged(what: str) -> OSError:
    return OSError(errno.EIO, f"a compressed copy is damaged: {what}")
