"""The pieces of partial files that a node reports to its peers, and their givers.

Reports are compact, and limited on both sides.
"""

import struct
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from stoker_sidecar.version.layout import is_part_name

# Inode, the random part of its partial file's name, and its number of pieces. Then a byte a piece.
_HEAD = struct.Struct("<I4sI")
# Bytes of all maps, unpacked: 30 TB of partial files. Maps beyond it are not sent.
_MOST = 4 * 2**20
# Maximum packed size in bytes, for incompressible maps.
MOST_PACKED = _MOST + 4096


class Gift(NamedTuple):
    """The giver of a piece. ``passed_on``: the giver had it from another node."""

    giver: str = ""
    passed_on: bool = False


class PieceMap(NamedTuple):
    """The map of one partial file: its name, and a byte a piece, 1 if the piece is available."""

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
