"""Reads bytes from the cache disk: at once when they are in the page cache, else in a thread, so that others go on."""

import errno
import os

import trio

# RWF_NOWAIT fails like this where bytes are not in memory, or where the file system (tmpfs, overlayfs) does not know it.
_NOT_NOW = (errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL)


async def read_at(fd: int, offset: int, length: int) -> bytes:
    """``length`` bytes from ``offset``, fewer only where the file ends. Raises OSError."""
    data = _read_from_memory(fd, offset, length)
    if len(data) == length:
        return data
    return data + await trio.to_thread.run_sync(_read_fully, fd, offset + len(data), length - len(data))


def _read_from_memory(fd: int, offset: int, length: int) -> bytes:
    buffer = bytearray(length)
    try:
        count = os.preadv(fd, [buffer], offset, os.RWF_NOWAIT)
    except OSError as error:
        if error.errno not in _NOT_NOW:
            raise
        return b""
    return bytes(buffer) if count == length else bytes(buffer[:count])


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
