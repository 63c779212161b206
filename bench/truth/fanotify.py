"""Opens, creations and ends of writing below folders, as the kernel's fanotify tells them. Needs root, Linux 5.17.

Folders are marked one by one, so that what is read in them is seen through any mount, and nothing else is.
"""

import ctypes
import os
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self

_CLOEXEC, _NONBLOCK, _UNLIMITED_QUEUE = 0x1, 0x2, 0x10
_REPORT_DIR_FID, _REPORT_NAME = 0x400, 0x800
_ADD = 0x1
_OPEN, _CLOSE_WRITE, _CREATE, _EVENT_ON_CHILD = 0x20, 0x8, 0x100, 0x08000000
_AT_FDCWD = -100
_HANDLE_SIZE = 128  # bytes: the most that the kernel gives
_EVENT = struct.Struct("=IBBHQii")  # length, version, reserved, length of this, mask, descriptor, pid
_INFO = struct.Struct("=BBH")  # type, padding, length
_INFO_DFID_NAME = 2
_BUFFER = 1 << 18
_LOOK_EVERY = 0.05  # seconds


@dataclass(frozen=True)
class FileEvent:
    """What a process did to a file. ``opened``, ``created``, ``written``: which of these; one event may be several.

    ``session``: the process's, 0 when it had ended before it was looked at.
    """

    seconds: float
    path: Path
    pid: int
    session: int
    opened: bool
    created: bool
    written: bool


class Watch:
    """Gathers what is done in folders, in a thread, from `__enter__` to `__exit__`."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._folders: dict[bytes, Path] = {}
        self._todo = list(folders)
        self._descriptor = -1
        self._ending = False
        self._thread = Thread(target=self._gather)
        self._sessions: dict[int, int] = {}
        self.events: list[FileEvent] = []

    def __enter__(self) -> Self:
        flags = _CLOEXEC | _NONBLOCK | _UNLIMITED_QUEUE | _REPORT_DIR_FID | _REPORT_NAME
        self._descriptor = self._checked(self._libc.fanotify_init(flags, os.O_RDONLY))
        for folder in self._todo:
            mask = ctypes.c_uint64(_OPEN | _CLOSE_WRITE | _CREATE | _EVENT_ON_CHILD)
            name = os.fsencode(folder)
            self._checked(self._libc.fanotify_mark(self._descriptor, _ADD, mask, _AT_FDCWD, name))
            self._folders[self._handle(name)] = folder
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending = True
        self._thread.join()
        os.close(self._descriptor)

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"fanotify: {os.strerror(number)}")
        return result

    def _handle(self, name: bytes) -> bytes:
        """Return the file handle by which the kernel names a folder in events."""
        buffer = ctypes.create_string_buffer(struct.pack("=Ii", _HANDLE_SIZE, 0), 8 + _HANDLE_SIZE)
        mount = ctypes.c_int()
        self._checked(self._libc.name_to_handle_at(_AT_FDCWD, name, buffer, ctypes.byref(mount), 0))
        (size,) = struct.unpack_from("=I", buffer.raw)
        return buffer.raw[: 8 + size]

    def _gather(self) -> None:
        ending = False
        while not ending:
            ending = self._ending  # what came before the end is still read
            try:
                while True:
                    self.events += self._parsed(os.read(self._descriptor, _BUFFER), time.monotonic())
            except BlockingIOError:
                time.sleep(0 if ending else _LOOK_EVERY / 10)

    def _parsed(self, data: bytes, now: float) -> Iterator[FileEvent]:
        at = 0
        while at < len(data):
            length, _, _, head, mask, _, pid = _EVENT.unpack_from(data, at)
            path = self._path(data[at + head : at + length])
            if path is not None:
                did = (bool(mask & _OPEN), bool(mask & _CREATE), bool(mask & _CLOSE_WRITE))
                yield FileEvent(now, path, pid, self._session(pid), *did)
            at += length

    def _session(self, pid: int) -> int:
        """Return the session of a process that has just done something."""
        if pid not in self._sessions:
            try:
                state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                return 0
            self._sessions[pid] = int(state.rpartition(")")[2].split()[3])
        return self._sessions[pid]

    def _path(self, info: bytes) -> Path | None:
        """Return the path of an event; None when it is not of a marked folder."""
        if len(info) < 20 or _INFO.unpack_from(info)[0] != _INFO_DFID_NAME:
            return None
        handle = info[12:]  # behind the header and the file system's id
        (size,) = struct.unpack_from("=I", handle)
        folder = self._folders.get(handle[: 8 + size])
        name = handle[8 + size :].split(b"\0", 1)[0]
        return folder / os.fsdecode(name) if folder and name not in (b"", b".") else None
