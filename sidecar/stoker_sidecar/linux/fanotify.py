"""Opens of files below marked folders, as the kernel reports them: fanotify groups, marks and events.

A group reports by folder handle and name (FAN_REPORT_DFID_NAME), so its events carry no descriptors: a reader learns
only names.
"""

import errno
import os
import struct
import tempfile
from pathlib import Path
from typing import NamedTuple

from stoker_sidecar.linux import libc

_FAN_CLOEXEC = 0x1
_FAN_NONBLOCK = 0x2
_FAN_REPORT_DFID_NAME = 0xC00
_FAN_OPEN = 0x20
_FAN_Q_OVERFLOW = 0x4000
_FAN_EVENT_ON_CHILD = 0x0800_0000
_MARK_ADD = 0x1
_MARK_FLUSH = 0x80
_AT_HANDLE_FID = 0x200  # for file systems whose handles cannot be decoded, such as overlays: Linux 6.5
# struct fanotify_event_metadata; then the information record's header, fsid, and handle size.
_EVENT = struct.Struct("=IBBHQii")
_HANDLE_AT = 12
_HANDLE_SIZE = struct.Struct("=I")
_HANDLE_HEAD = 8
_BUFFER = 64 * 1024
# Maximum bytes of one read: a full queue of events with names of 40 letters.
_MOST_BYTES = 2 * 1024 * 1024
# Bytes of an event without a name, which carries no information.
_SMALLEST = 48


class Opened(NamedTuple):
    """An opened file: its folder's handle, its name, and the opener's pid (0: of another namespace)."""

    folder: bytes
    name: bytes
    pid: int


class Drained(NamedTuple):
    """The content of a group's queue: ``number`` opens, with details of the first ones.

    ``whole`` means that no events were lost or left.
    """

    opened: list[Opened]
    number: int
    whole: bool


def open_group() -> int:
    """Create a group without marks. Return its descriptor. Raises OSError: EPERM without CAP_SYS_ADMIN, EINVAL, ENOSYS.

    The kernel drops events beyond 16,384 (fs.fanotify.max_queued_events), and reports the overflow.
    """
    return libc.fanotify_init(_FAN_CLOEXEC | _FAN_NONBLOCK | _FAN_REPORT_DFID_NAME, os.O_RDONLY | os.O_CLOEXEC)


def mark_folder(group: int, folder: int) -> None:
    """Report opens of files in an open folder. Raises OSError."""
    libc.fanotify_mark(group, _MARK_ADD, _FAN_OPEN | _FAN_EVENT_ON_CHILD, folder)


def clear_marks(group: int) -> None:
    """Remove all marks of a group in one call: readers then pay nothing. Raises OSError."""
    libc.fanotify_mark(group, _MARK_FLUSH, 0, -1)


def folder_handle(folder: int) -> bytes:
    """Return an open folder's handle as in a group's events. Raises OSError: EOPNOTSUPP without handles."""
    try:
        return libc.name_to_handle(folder, _AT_HANDLE_FID)
    except OSError as error:
        if error.errno != errno.EINVAL:  # before Linux 6.5
            raise
        return libc.name_to_handle(folder, 0)


def drain(group: int, most: int) -> Drained:
    """Empty a group's queue, and return ``most`` events of it. Never waits. Raises OSError.

    All events are copied before parsing, because in a flood they come faster than they are parsed.
    """
    buffers: list[bytes] = []
    left = _MOST_BYTES
    while left > 0:
        try:
            buffers.append(os.read(group, _BUFFER))
        except BlockingIOError:
            return parse(b"".join(buffers), most)
        left -= len(buffers[-1])
    return parse(b"".join(buffers), most)._replace(whole=False)


def discard(group: int) -> int:
    """Empty a group's queue. Return the number of its events. Raises OSError."""
    count = 0
    while found := drain(group, most=0).number:
        count += found
    return count


def parse(data: bytes, most: int) -> Drained:
    """Count the events of a buffer, and parse ``most`` of them. Pure.

    Raises struct.error and ValueError for data that no kernel writes.
    """
    opened: list[Opened] = []
    whole, at, count = True, 0, 0
    while at < len(data):
        length, _, _, head, mask, _, pid = _EVENT.unpack_from(data, at)
        if length < _EVENT.size:
            raise ValueError(f"an event of {length} bytes")
        if mask & _FAN_Q_OVERFLOW:
            whole = False
        elif length > _SMALLEST:
            count += 1
        if length > _SMALLEST and count <= most:
            handle = at + head + _HANDLE_AT
            name = handle + _HANDLE_HEAD + _HANDLE_SIZE.unpack_from(data, handle)[0]
            opened.append(Opened(data[handle:name], data[name : data.index(0, name)], pid))
        at += length
    return Drained(opened, count, whole)


def why_not(folder: Path) -> str:
    """Test if opens below a folder's file system are reported. Return the reason if not, else an empty string."""
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix="probe") as inside:
            return _try(Path(inside))
    except OSError as error:
        return f"fanotify does not work at {folder}: {error.strerror}; it needs Linux 5.9 and CAP_SYS_ADMIN"


def _try(folder: Path) -> str:
    (folder / "file").touch()
    group = open_group()
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            mark_folder(group, descriptor)
            expected = folder_handle(descriptor)
        finally:
            os.close(descriptor)
        (folder / "file").read_bytes()
        found = drain(group, most=1).opened
    finally:
        os.close(group)
    if [(one.folder, one.name) for one in found[:1]] != [(expected, b"file")]:
        return f"Linux {os.uname().release} names opened files of {folder} otherwise than by their folder's handle"
    return ""
