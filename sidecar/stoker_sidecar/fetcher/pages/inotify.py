"""Reports the next opening of single files once, by inotify watches. A watch needs only the right to read the file."""

import os
import struct
from contextlib import suppress

from stoker_sidecar.linux import libc

_IN_OPEN = 0x20
_IN_MASK_CREATE, _IN_ONESHOT = 0x1000_0000, 0x8000_0000  # do not change an existing watch; remove it after one event
_IN_NONBLOCK, _IN_CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_EVENT = struct.Struct("=iIII")  # the watch, the event, a cookie, the length of a name (0 for files)
_BUFFER = 64 * 1024


class OpeningWatch:
    """Numbers of files, returned when any process next opens the file. Not thread-safe.

    A watch is of the inode, so opens through bind mounts and in other namespaces count. Opens through an overlay do not
    count, since it has separate inodes.
    """

    def __init__(self) -> None:
        """Begin without files. Raises OSError: EMFILE if the user is at the kernel's limit (inotify(7))."""
        self._fd = libc.inotify_init(_IN_NONBLOCK | _IN_CLOEXEC)
        self._numbers: dict[int, int] = {}
        self._watches: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def fileno(self) -> int:
        """Return the descriptor, which can be read when some file was opened."""
        return self._fd

    def add(self, path: str, number: int) -> bool:
        """Watch a file; returns False for one that cannot be, or is watched already."""
        try:
            watch = libc.inotify_add_watch(self._fd, path, _IN_OPEN | _IN_MASK_CREATE | _IN_ONESHOT)
        except OSError:
            return False
        self._numbers[watch], self._watches[number] = number, watch
        return True

    def remove(self, number: int) -> None:
        """Stop watching a file, if it is watched."""
        watch = self._watches.pop(number, None)
        if watch is not None and self._numbers.pop(watch, None) is not None:
            with suppress(OSError):  # it is gone, with an event that was not read
                libc.inotify_rm_watch(self._fd, watch)

    def opened(self) -> list[int]:
        """Return the numbers of files that were opened since the last call, in the order of their opening."""
        found: list[int] = []
        with suppress(BlockingIOError):
            while data := os.read(self._fd, _BUFFER):
                found += self._parse(data)
        return found

    def close(self) -> None:
        """End all watches; may be called again."""
        self._numbers.clear()
        self._watches.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _parse(self, data: bytes) -> list[int]:
        found: list[int] = []
        at = 0
        while at < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            number = self._numbers.pop(watch, None)  # its single event, or the deletion of the file, removed it
            if number is not None:
                self._watches.pop(number, None)
                found += [number] * bool(mask & _IN_OPEN)
        return found
