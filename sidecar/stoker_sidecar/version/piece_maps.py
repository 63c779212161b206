"""Which pieces of files in the making a node has, as it tells other nodes: compact, and bounded on either side."""

import struct
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from stoker_sidecar.version.part_files import is_part_name

# Inode, the chance in the name of its file in the making, and how many pieces it has; then a byte a piece.
_HEAD = struct.Struct("<I4sI")
# Bytes of all, unpacked: 30 TB of files in the making. What is more is not told.
_MOST = 4 * 2**20
# Bytes that they come to at most, packed, where nothing can be packed.
MOST_PACKED = _MOST + 4096


class PieceMap(NamedTuple):
    """Of one file in the making: its name, and a byte a piece, 1 where it can be had."""

    name: str
    pieces: bytes


def pack_maps(maps: Iterable[PieceMap]) -> bytes:
    """Write the maps, as many as fit; names are as ``is_part_name`` has them."""
    found = bytearray()
    for name, pieces in maps:
        ino, _, chance = name.partition(".")
        if is_part_name(name) and len(found) + _HEAD.size + len(pieces) <= _MOST:
            found += _HEAD.pack(int(ino), bytes.fromhex(chance), len(pieces)) + pieces
    return zlib.compress(found, 1)


def unpack_maps(packed: bytes) -> dict[int, PieceMap]:
    """Read the maps by inode. Raises ValueError for anything else."""
    try:
        found = zlib.decompressobj().decompress(packed, _MOST)
    except zlib.error as error:
        raise ValueError(f"the maps of pieces cannot be unpacked: {error}") from error
    maps: dict[int, PieceMap] = {}
    at = 0
    while at < len(found):
        if len(found) - at < _HEAD.size:
            raise ValueError("the maps of pieces end within one")
        ino, chance, count = _HEAD.unpack_from(found, at)
        pieces = found[at + _HEAD.size : at + _HEAD.size + count]
        if len(pieces) < count:
            raise ValueError("the maps of pieces end within one")
        maps[ino] = PieceMap(f"{ino}.{chance.hex()}", pieces)
        at += _HEAD.size + count
    return maps
