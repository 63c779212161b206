"""Reads bytes from the cache disk: at once when they are in the page cache, else in a thread, so that others go on."""

import errno
import os

import trio

# RWF_NOWAIT fails like this where bytes are not in memory, and where the file system does not know the flag.
_NOT_NOW = (errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL)


async def read_at(fd: int, offset: int, length: int) -> bytes:
    """``length`` bytes from ``offset``, fewer only where the file ends. Raises OSError."""
    if _in_memory(fd, offset, length):
        data = os.pread(fd, length, offset)
        if len(data) == length:
            return data
    return await trio.to_thread.run_sync(_read_fully, fd, offset, length)


def _in_memory(fd: int, offset: int, length: int) -> bool:
    """By its ends, a byte each: 1 us. What lies between was read with them, or costs one short wait.

    Reading it all with RWF_NOWAIT is surer and costs half as much again: the buffer must be made, and cleared, beforehand.
    """
    byte = bytearray(1)
    try:
        return all(os.preadv(fd, [byte], at, os.RWF_NOWAIT) == 1 for at in (offset + length - 1, offset))
    except OSError as error:
        if error.errno not in _NOT_NOW:
            raise
        return False


def _read_fully(fd: int, offset: int, length: int) -> bytes:
    """pread(2) may stop early on a signal or at a limit of the file system; only an empty answer is the end."""
    parts = []
    while length > 0:
        part = os.pread(fd, length, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return b"".join(parts)
