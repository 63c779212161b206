"""Encodes a tree of names and attributes without contents as an EROFS image, which the kernel mounts from a file. Pure.

The format is the kernel's (fs/erofs/erofs_fs.h, Documentation/filesystems/erofs.rst). Inodes lie in slots of 32 bytes,
and the slot is the inode's number. Folders are blocks of entries sorted by name. All numbers are little endian. Files
are holes: an overlay takes everything but file contents from the image.
"""

import stat
import struct
from enum import IntEnum

BLOCK = 4096
# The first slot after the super block. The root must lie in one of the first 65,536.
FIRST_INODE = 1152
SUPER_BLOCK_AT = 1024

_MAGIC = 0xE0F5E1E2
_BLOCK_BITS = 12
_SLOT = 32
_HAS_CHUNKS = 0x4  # feature_incompat: some files are described by chunks
_EXTENDED = 1  # the inode of 64 bytes, which has a timestamp
_PLAIN, _CHUNKED = 0 << 1, 4 << 1  # data layouts in i_format
_CHUNK_SHIFT = 31  # chunks of 8 TiB, the largest possible size
_CHUNK_BITS = _BLOCK_BITS + _CHUNK_SHIFT
_HOLE = b"\xff\xff\xff\xff"
_XATTR_HEADER = bytes(12)  # header of an inode's attributes: no shared ones, and no name filter
_MOST_ATTRIBUTES = 0xFFFF  # bytes of an inode's attributes; the format allows four times as many
_PREFIXES = ((b"user.", 1), (b"trusted.", 4), (b"security.", 6))

_SUPER_BLOCK = struct.Struct("<IIIBBHQQIIII16s16sIHHHBBIQB23x")
_INODE = struct.Struct("<HHHHQIIIIqII16x")
_XATTR = struct.Struct("<BBH")
_DIRENT = struct.Struct("<QHBB")


class EntryKind(IntEnum):
    """The type of a folder entry; the kernel's FT_* numbers."""

    FILE = 1
    FOLDER = 2


def super_block(root: int, inodes: int, blocks: int) -> bytes:
    """Encode the super block of an image with ``blocks`` blocks. ``root`` is the slot of the root's inode."""
    blank = bytes(16)
    return _SUPER_BLOCK.pack(
        *(_MAGIC, 0, 0, _BLOCK_BITS, 0, root, inodes, 0, 0, blocks, 0, 0),
        *(blank, blank, _HAS_CHUNKS, 0, 0, 0, 0, 0, 0, 0, 0),
    )


def slot(offset: int) -> int:
    """Return the slot at an offset, which is the number of the inode there."""
    return offset // _SLOT


def attribute(name: bytes, value: bytes) -> bytes:
    """Encode one extended attribute of an inode. Raises ValueError if it is too long."""
    prefix, number = next(row for row in _PREFIXES if name.startswith(row[0]))
    short = name[len(prefix) :]
    if len(value) > _MOST_ATTRIBUTES:
        raise ValueError(f"the attribute {name.decode()} has {len(value)} bytes, and {_MOST_ATTRIBUTES} fit")
    body = _XATTR.pack(len(short), number, len(value)) + short + value
    return body + bytes(-len(body) % 4)


def file_inode(number: int, size: int, mtime_ns: int, mode: int, attributes: bytes) -> bytes:
    """Encode a file that consists of a hole. Raises ValueError for values that do not fit."""
    if not 0 <= size < 2**63:
        raise ValueError(f"{size} is no size")
    holes = _HOLE * max(1, -(-size >> _CHUNK_BITS))
    head = _head(_CHUNKED, attributes, stat.S_IFREG | mode, size, _CHUNK_SHIFT, number, mtime_ns, 1)
    return _in_slots(head + _XATTR_HEADER + attributes + holes if attributes else head + holes)


def folder_inode(
    number: int, place: tuple[int, int], mtime_ns: int, mode: int, folders: int, attributes: bytes
) -> bytes:
    """Encode a folder. ``place`` is its first block and the number of blocks. ``folders`` counts its subfolders.

    Raises ValueError for too many attributes.
    """
    first, blocks = place
    head = _head(_PLAIN, attributes, stat.S_IFDIR | mode, blocks * BLOCK, first, number, mtime_ns, 2 + folders)
    return _in_slots(head + _XATTR_HEADER + attributes if attributes else head)


class FolderBlocks:
    """The entries of one folder, as blocks. Add them in the byte order of their names."""

    def __init__(self, own: int, parent: int) -> None:
        self._dots = [(b".", own), (b"..", parent)]
        self._done = bytearray()
        self._rows: list[tuple[bytes, int, EntryKind]] = []  # of the current block
        self._used = 0
        self._last = b""

    def add(self, name: bytes, inode: int, kind: EntryKind) -> None:
        """Add an entry. Raises ValueError if it is out of order."""
        if name <= self._last:
            raise ValueError(f"the name {name[:200]!r} comes after {self._last[:200]!r}")
        self._last = name
        while self._dots and self._dots[0][0] < name:
            self._add(*self._dots.pop(0), EntryKind.FOLDER)
        self._add(name, inode, kind)

    def finish(self) -> bytes:
        """Return the blocks of all entries, including ``.`` and ``..``."""
        for dots, inode in self._dots:
            self._add(dots, inode, EntryKind.FOLDER)
        self._dots.clear()
        self._close()
        return bytes(self._done)

    def _add(self, name: bytes, inode: int, kind: EntryKind) -> None:
        need = _DIRENT.size + len(name)
        if self._used + need > BLOCK:
            self._close()
        self._rows.append((name, inode, kind))
        self._used += need

    def _close(self) -> None:
        at = len(self._rows) * _DIRENT.size
        for name, inode, kind in self._rows:
            self._done += _DIRENT.pack(inode, at, kind, 0)
            at += len(name)
        self._done += b"".join(name for name, _, _ in self._rows)
        self._done += bytes(-len(self._done) % BLOCK)
        self._rows.clear()
        self._used = 0


def _head(
    layout: int, attributes: bytes, mode: int, size: int, where: int, number: int, mtime_ns: int, links: int
) -> bytes:
    if len(attributes) > _MOST_ATTRIBUTES:
        raise ValueError(f"the attributes take {len(attributes)} bytes, and {_MOST_ATTRIBUTES} fit")
    # One for the header, and one for each four bytes after it.
    count = 1 + len(attributes) // 4 if attributes else 0
    seconds, rest = divmod(mtime_ns, 10**9)
    return _INODE.pack(layout | _EXTENDED, count, mode, 0, size, where, number & 0xFFFFFFFF, 0, 0, seconds, rest, links)


def _in_slots(inode: bytes) -> bytes:
    return inode + bytes(-len(inode) % _SLOT)
