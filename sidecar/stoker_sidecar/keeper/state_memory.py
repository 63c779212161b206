"""Keeps the memory in which each fetcher leaves what it was told for the next one, through takeovers, too."""

import errno
import logging
import os

_log = logging.getLogger("stoker.keeper")


class StateMemory:
    """A memory file, ``fd``, that outlives each fetcher.

    Never on a disk, as credentials lie in it, and gone with its keepers.
    """

    def __init__(self) -> None:
        self.fd = os.memfd_create("stoker-fetcher")

    def take(self, other: int) -> None:
        """Copy what another one has, which is closed; while no fetcher uses either."""
        try:
            _copy(other, self.fd)
        except OSError as error:  # no memory left: the agent tells the fetcher again
            _log.warning("what the last fetcher knew is not taken over: %s", error)
        finally:
            os.close(other)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _copy(source: int, target: int) -> None:
    """Copy what lies between the holes, as the file is long and nearly empty."""
    end = 0
    while (start := _next_data(source, end)) is not None:
        end = os.lseek(source, start, os.SEEK_HOLE)
        while start < end:
            start += os.pwrite(target, os.pread(source, end - start, start), start)


def _next_data(fd: int, offset: int) -> int | None:
    try:
        return os.lseek(fd, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None  # nothing but a hole to the end
