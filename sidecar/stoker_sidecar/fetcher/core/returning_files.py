"""Which files of a version come again soon, and which do not, where each epoch reads another part of it. Pure."""

import zlib
from collections.abc import Iterator

from stoker_sidecar.errors import ProtocolError

# Of a file: it is read in the rest of this epoch, and in the next one.
NOW, NEXT = 1, 2
_BOTH = NOW | NEXT
_UNUSED = bytes(not mark for mark in range(256))
# Bytes of one reader's marks, one an inode: more than any version has whose order is followed. Readers whose are held.
_MOST_INODES = 32 * 1024**2
_MOST_READERS = 16


class ReturningFiles:
    """What the readers of one version read until the end of the next epoch, as they last told it."""

    def __init__(self) -> None:
        self._readers: dict[str, bytes] = {}
        self._marks = b""  # of all readers together

    def tell(self, reader: str, files: bytes) -> None:
        """Take a reader's marks, a byte an inode by zlib, in place of those before; empty: nothing is known of it.

        Raises ProtocolError.
        """
        self._readers.pop(reader, None)
        if files:
            self._readers[reader] = _unpacked(files)
        while len(self._readers) > _MOST_READERS:
            del self._readers[next(iter(self._readers))]
        length = max(map(len, self._readers.values()), default=0)
        marks = 0
        for one in self._readers.values():
            marks |= int.from_bytes(one.ljust(length, b"\0"))
        self._marks = marks.to_bytes(length)

    def comes_twice(self, ino: int) -> bool:
        """Tell whether a file is read in this epoch, and in the next one: kept now, it need not be fetched then."""
        return ino < len(self._marks) and self._marks[ino] & _BOTH == _BOTH

    def idle(self, here: bytes) -> Iterator[int]:
        """Yield the files that nobody reads before the epoch after the next one, the last inode first.

        ``here``: a byte an inode, 1 where the file is here. Where nobody has told anything, none is known to be idle.
        """
        if not self._readers:
            return
        unused = self._marks[: len(here)].ljust(len(here), b"\0").translate(_UNUSED)
        found = (int.from_bytes(here) & int.from_bytes(unused)).to_bytes(len(here))
        ino = len(found)
        while (ino := found.rfind(1, 0, ino)) > 0:
            yield ino


def _unpacked(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        marks = unpacking.decompress(packed, _MOST_INODES)
    except zlib.error as error:
        raise ProtocolError(f"the files of a returning request cannot be unpacked: {error}") from error
    if not unpacking.eof or unpacking.unused_data:
        raise ProtocolError(f"the files of a returning request are not whole, or more than {_MOST_INODES} inodes")
    return marks
