"""The states of a version's inodes on this disk. Pure."""

from collections.abc import Iterable
from enum import IntEnum


class State(IntEnum):
    """State of one inode; a byte each, so that a million files take a megabyte."""

    MISSING = 0
    HERE = 1
    FAILED = 2  # warming failed to fetch it and retries after the rest
    UNKEPT = 3  # did not fit quota or disk: read through
    FOLDER = 4
    PACKED = 5  # there is a compressed copy of it, and none in the tree


_HERE_ALONE = bytes(int(state == State.HERE) for state in range(256))


class FileStates(bytearray):
    """The states by inode, a byte each."""

    __slots__ = ()

    def missing(self, after: int = 0) -> int:
        """Return the next inode after ``after`` that warming should fetch, or -1."""
        return self.find(State.MISSING, after + 1)

    def is_missing(self, ino: int) -> bool:
        """Return True if warming should fetch the file."""
        return self[ino] == State.MISSING

    def are(self, state: State, among: bytes) -> bool:
        """Return True if an inode with the mark 1 in ``among``, a byte each, is in this state."""
        marks = self.translate(bytes(int(one == state) for one in range(256)))
        return int.from_bytes(marks) & int.from_bytes(among) != 0

    def whole_files(self) -> bytes:
        """Return a byte per inode: 1 if the file is in the tree."""
        return bytes(self.translate(_HERE_ALONE))

    def here_among(self, marks: Iterable[bytes]) -> tuple[bytes, ...]:
        """Return the marks of inodes, a byte each, without inodes whose files are not in the tree."""
        here = int.from_bytes(self.translate(_HERE_ALONE))
        return tuple((int.from_bytes(mark) & here).to_bytes(len(self)) for mark in marks)

    def forget(self, state: State) -> None:
        """Set all inodes of this state to missing, so that the next pass of warming tries them."""
        self.change(state, State.MISSING)

    def change(self, before: State, after: State) -> None:
        """Set all inodes of one state to another state."""
        self[:] = self.replace(bytes([before]), bytes([after]))
