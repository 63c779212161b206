"""C library calls that Python 3.11 lacks, through ctypes. All raise OSError on failure."""

import ctypes
import os
import signal
import sys
from contextlib import suppress

CLONE_NEWNS = 0x20000  # the kind of namespace that holds mounts
_AT_EMPTY_PATH = 0x1000
_MOST_HANDLE = 128  # MAX_HANDLE_SZ
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
# mallopt(3), by malloc.h of glibc.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE_BLOCK = 1024 * 1024

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p  # otherwise an address is cut to an int
_MADV_DONTNEED = 4
_MAP_FAILED = ctypes.c_void_p(-1).value


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def mount(source: str, target: str, fs_type: str, flags: int, data: str = "") -> None:
    """Mount a file system or change a mount. The arguments are those of the manual's page mount, section 2."""
    options = os.fsencode(data) or None
    _checked(_libc.mount(os.fsencode(source), os.fsencode(target), fs_type.encode(), ctypes.c_ulong(flags), options))


def unmount(target: str, flags: int) -> None:
    """Unmount ``target``: umount2(2)."""
    _checked(_libc.umount2(os.fsencode(target), flags))


def enter_namespace(descriptor: int, kind: int) -> None:
    """Move the calling thread into a namespace of ``descriptor``, which can be a pidfd since Linux 5.8: setns(2)."""
    _checked(_libc.setns(descriptor, kind))


def system_call(number: int, *arguments: object) -> int:
    """Make a system call that the C library may lack. Return its result."""
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *converted))


def fanotify_init(flags: int, event_flags: int) -> int:
    """Create a fanotify group. Return its descriptor."""
    return _checked(_libc.fanotify_init(ctypes.c_uint(flags), ctypes.c_uint(event_flags)))


def fanotify_mark(group: int, flags: int, mask: int, folder: int) -> None:
    """Add or remove marks of a fanotify group, on the file of the descriptor ``folder``."""
    _checked(_libc.fanotify_mark(group, ctypes.c_uint(flags), ctypes.c_uint64(mask), folder, None))


def inotify_init(flags: int) -> int:
    """Create an inotify instance. Return its descriptor: inotify_init1(2)."""
    return _checked(_libc.inotify_init1(ctypes.c_int(flags)))


def inotify_add_watch(instance: int, path: str, mask: int) -> int:
    """Watch a file. Return the number of the watch."""
    return _checked(_libc.inotify_add_watch(instance, os.fsencode(path), ctypes.c_uint32(mask)))


def inotify_rm_watch(instance: int, watch: int) -> None:
    """Remove a watch."""
    _checked(_libc.inotify_rm_watch(instance, watch))


def name_to_handle(descriptor: int, flags: int) -> bytes:
    """Return the struct file_handle of an open file or folder: name_to_handle_at(2)."""
    room = ctypes.create_string_buffer(_MOST_HANDLE.to_bytes(4, sys.byteorder), 8 + _MOST_HANDLE)
    mount_id = ctypes.c_int()
    _checked(_libc.name_to_handle_at(descriptor, b"", room, ctypes.byref(mount_id), flags | _AT_EMPTY_PATH))
    return room.raw[: 8 + int.from_bytes(room.raw[:4], sys.byteorder)]


def map_file(descriptor: int, length: int, protection: int, flags: int) -> int:
    """Map the beginning of a file. Return the address: mmap(2)."""
    address = _libc.mmap(None, ctypes.c_size_t(length), protection, flags, descriptor, ctypes.c_long(0))
    if address == _MAP_FAILED:
        _checked(-1)
    return int(address)


def unmap(address: int, length: int) -> None:
    """Remove a mapping: munmap(2)."""
    _checked(_libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(length)))


def lock_memory(address: int, length: int) -> None:
    """Read a mapping and lock it in memory: mlock(2)."""
    _checked(_libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(length)))


def unlock_memory(address: int, length: int) -> None:
    """Let the kernel evict pages of a file's mapping again: munlock(2), madvise(2)."""
    _checked(_libc.munlock(ctypes.c_void_p(address), ctypes.c_size_t(length)))
    # Otherwise they stay mapped, and a request to drop them (POSIX_FADV_DONTNEED) has no effect.
    _checked(_libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(length), _MADV_DONTNEED))


def sync_file_system(descriptor: int) -> None:
    """Return when all writes to the descriptor's file system are on the disk: syncfs(2)."""
    _checked(_libc.syncfs(descriptor))


def give_back_memory() -> None:
    """Return freed memory to the kernel, which malloc otherwise keeps: malloc_trim(3), a few milliseconds.

    It covers small blocks, such as SQLite's pages, with live blocks after them in the heap. A C library without the
    call, such as musl, returns memory on its own.
    """
    with suppress(AttributeError):
        _libc.malloc_trim(ctypes.c_size_t(0))


def keep_freed_memory(most: int) -> None:
    """Let malloc keep up to ``most`` freed bytes, including blocks below 1 MiB, for reuse.

    For a process with one buffer per request: glibc returns the end of its heap from 128 KiB on, and getting 100 KiB
    again costs 25 page faults. No effect without mallopt(3).
    """
    with suppress(AttributeError):
        _libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)
        _libc.mallopt(_M_TRIM_THRESHOLD, most)


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Send this process a signal when the thread that started it ends. Call it first in a child."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, number))


def name_process(name: str) -> None:
    """Set this process's name for ps and top, up to 15 characters. Call it from the main thread."""
    _checked(_libc.prctl(_PR_SET_NAME, name.encode()))


def adopt_orphans() -> None:
    """Make orphaned descendants children of this process, as for a container's PID 1."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1))


def forgo_new_privileges() -> None:
    """Prevent programs that this process runs from gaining privileges, by setuid or otherwise."""
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
