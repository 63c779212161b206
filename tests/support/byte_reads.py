"""Reads that report their length and error, as a program sees them with each kind of call."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Got(NamedTuple):
    """The result of a read: ``data`` before the end, or before ``errno`` (0: none)."""

    data: bytes
    errno: int = 0


def read_path(path: Path, offset: int, length: int, *, cold: bool = False, mapped: bool = False) -> Got:
    """Read through a separate descriptor. See ``read_fd``."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as error:
        return Got(b"", error.errno or 0)
    try:
        return read_fd(fd, offset, length, cold=cold, mapped=mapped)
    finally:
        os.close(fd)


def read_fd(fd: int, offset: int, length: int, *, cold: bool = False, mapped: bool = False) -> Got:
    """Read all of a range. ``cold`` bypasses the page cache. ``mapped`` uses a map, whose errors are EFAULT here."""
    if cold:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    return _read_mapped(fd, offset, length) if mapped else _read(fd, offset, length)


def _read(fd: int, offset: int, length: int) -> Got:
    parts: list[bytes] = []
    try:
        while length > 0 and (part := os.pread(fd, length, offset)):
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
    except OSError as error:
        return Got(b"".join(parts), error.errno or 0)
    return Got(b"".join(parts))


def _read_mapped(fd: int, offset: int, length: int) -> Got:
    """Let the kernel copy from the map. It returns EFAULT where a program would get SIGBUS."""
    try:
        size = os.fstat(fd).st_size
    except OSError as error:
        return Got(b"", error.errno or 0)
    end = min(offset + length, size)
    if end <= offset:
        return Got(b"")
    with _memory_file() as copy, mmap.mmap(fd, size, prot=mmap.PROT_READ) as mapping, memoryview(mapping) as view:
        done, code = offset, 0
        while done < end and not code:
            try:
                with view[done:end] as rest:
                    done += os.pwrite(copy, rest, done - offset)
            except OSError as error:
                code = error.errno or 0
        return Got(os.pread(copy, done - offset, 0), code)


@contextmanager
def _memory_file() -> Iterator[int]:
    fd = os.memfd_create("copy")
    try:
        yield fd
    finally:
        os.close(fd)
