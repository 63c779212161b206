"""Files of the cache disk that are kept open, and reads from them that hold up no other reader."""

import errno
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import trio

# RWF_NOWAIT fails like this where bytes are not in memory, and where the file system does not know the flag.
_NOT_NOW = (errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL)


class _Descriptor:
    """An open file, how many read it now, and whether it is still kept for the next reader."""

    __slots__ = ("fd", "kept", "readers")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.readers = 0
        self.kept = True


class Descriptors:
    """A bounded set of open files: the least recently used is closed first, and none while it is being read.

    It keeps at most ``capacity`` descriptors, plus those in use. For one event loop; not for threads.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._open: OrderedDict[Hashable, _Descriptor] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        """Tell whether a descriptor is kept under ``key``."""
        return key in self._open

    @contextmanager
    def borrow(self, key: Hashable, opener: Callable[[], int]) -> Iterator[int]:
        """Yield the descriptor kept under ``key``.

        ``opener`` makes it when there is none, and its errors pass through.
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
        """Close what is kept under ``key``, if anything, when its readers are done."""
        descriptor = self._open.pop(key, None)
        if descriptor is not None:
            descriptor.kept = False
            self._close_idle(descriptor)

    def close(self) -> None:
        """Close all; those in use when their readers are done."""
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
    """Read ``length`` bytes from ``offset``, fewer only where the file ends. Raises OSError.

    At once when they are in the page cache, else in a thread, so that other requests go on.
    """
    if is_in_memory(fd, offset, length):
        data = os.pread(fd, length, offset)
        if len(data) == length:
            return data
    return await trio.to_thread.run_sync(_read_fully, fd, offset, length)


def is_in_memory(fd: int, offset: int, length: int) -> bool:
    """Tell by its first and last byte whether a span is in the page cache: 1 us.

    What lies between was read with them, or costs one short wait.

    Reading it all with RWF_NOWAIT is surer and costs half as much again: the buffer must be made, and cleared,
    beforehand.
    """
    byte = bytearray(1)
    try:
        return all(os.preadv(fd, [byte], at, os.RWF_NOWAIT) == 1 for at in (offset + length - 1, offset))
    except OSError as error:
        if error.errno not in _NOT_NOW:
            raise
        return False


def _read_fully(fd: int, offset: int, length: int) -> bytes:
    """Read until nothing comes: pread(2) may stop early on a signal or at a limit of the file system."""
    parts = []
    while length > 0:
        part = os.pread(fd, length, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return b"".join(parts)
