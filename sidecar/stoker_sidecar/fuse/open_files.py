"""Cached open files of the cache disk, and reads from them that do not block other readers."""

import errno
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import trio

# Errors of RWF_NOWAIT for bytes outside memory, and on file systems without support for the flag.
_NOT_NOW = (errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL)


class _Descriptor:
    """An open file, the number of its readers, and whether it stays cached."""

    __slots__ = ("fd", "kept", "readers")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.readers = 0
        self.kept = True


class Descriptors:
    """A bounded set of open files. The least recently used is closed first, but never during a read.

    It keeps at most ``capacity`` descriptors, plus those in use. For one event loop; not thread-safe.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._open: OrderedDict[Hashable, _Descriptor] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        """Return True if a descriptor is cached under ``key``."""
        return key in self._open

    @contextmanager
    def borrow(self, key: Hashable, opener: Callable[[], int]) -> Iterator[int]:
        """Yield the descriptor under ``key``.

        ``opener`` opens it if needed, and its errors pass through.
        """
        descriptor = self._open.get(key)
        if descriptor is None:
            descriptor = self._open[key] = _Descriptor(opener())
        self._open.move_to_end(key)
        descriptor.readers += 1
        try:
            self._shrink()
            yield descriptor.fd
        finally:
            descriptor.readers -= 1
            if not descriptor.kept:
                self._close_idle(descriptor)

    def forget(self, key: Hashable) -> None:
        """Close the descriptor under ``key``, if any, after its last reader."""
        descriptor = self._open.pop(key, None)
        if descriptor is not None:
            descriptor.kept = False
            self._close_idle(descriptor)

    def close(self) -> None:
        """Close all descriptors; those in use after their last reader."""
        while self._open:
            self._drop_oldest()

    def _shrink(self) -> None:
        while len(self._open) > self._capacity:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, descriptor = self._open.popitem(last=False)
        descriptor.kept = False
        self._close_idle(descriptor)

    @staticmethod
    def _close_idle(descriptor: _Descriptor) -> None:
        if descriptor.readers == 0:
            os.close(descriptor.fd)


async def read_at(fd: int, offset: int, length: int) -> bytes:
    """Read ``length`` bytes from ``offset``, fewer only at the end of the file. Raises OSError.

    Bytes in the page cache are read at once, others in a thread, so that other requests continue.
    """
    if is_in_memory(fd, offset, length):
        data = os.pread(fd, length, offset)
        if len(data) == length:
            return data
    return await trio.to_thread.run_sync(_read_fully, fd, offset, length)


def is_in_memory(fd: int, offset: int, length: int) -> bool:
    """Check if a span is in the page cache by its first and last byte: 1 us.

    The bytes between were read with them, or cost one short wait. Reading everything with RWF_NOWAIT is more reliable
    but costs half as much again, because the buffer must be allocated and cleared first.
    """
    byte = bytearray(1)
    try:
        return all(os.preadv(fd, [byte], at, os.RWF_NOWAIT) == 1 for at in (offset + length - 1, offset))
    except OSError as error:
        if error.errno not in _NOT_NOW:
            raise
        return False


def _read_fully(fd: int, offset: int, length: int) -> bytes:
    """Read until the end: pread(2) may stop early on a signal or at a limit of the file system."""
    parts = []
    while length > 0:
        part = os.pread(fd, length, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return b"".join(parts)
