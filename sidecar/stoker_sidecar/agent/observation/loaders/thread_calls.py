"""The system call that a thread of another process sleeps in, from /proc."""

import os
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

_PROC = Path("/proc")
_MOST_BYTES = 256  # a line has nine numbers
_WORDS = 9  # the call's number, six arguments, stack pointer, program counter
_SIGN, _WORD = 1 << 31, 1 << 32


class ThreadCall(Enum):
    """The kinds of system calls that matter for detecting waits for data."""

    NONE = "none"  # it runs, or waits for a processor
    FAULT = "fault"  # it sleeps outside of a call: a page fault reads a page
    READ = "read"  # of the descriptor in its first argument
    OPEN = "open"  # it looks up, opens or lists files
    POLL = "poll"  # until one of several descriptors is readable
    LOCK = "lock"  # a futex
    OTHER = "other"


_X86_64: Final = {
    ThreadCall.READ: (0, 17, 19, 295, 327),  # read pread64 readv preadv preadv2
    # open stat access readlink getdents and their kind
    ThreadCall.OPEN: (2, 4, 5, 6, 21, 78, 89, 217, 257, 262, 267, 269, 332, 437, 439),
    ThreadCall.POLL: (7,),  # not ppoll, which C libraries use for poll only without another call
    ThreadCall.LOCK: (202,),
}
_AARCH64: Final = {
    ThreadCall.READ: (63, 65, 67, 69, 286),
    ThreadCall.OPEN: (48, 56, 61, 78, 79, 80, 291, 437, 439),
    ThreadCall.POLL: (73,),
    ThreadCall.LOCK: (98,),
}
_MACHINES: Final = {
    machine: {number: call for call, numbers in calls.items() for number in numbers}
    for machine, calls in (("x86_64", _X86_64), ("aarch64", _AARCH64))
}
_PPOLL: Final = ("aarch64", 73)  # its third argument points to the timeout


class CallSeen(NamedTuple):
    """A system call. ``first`` is a descriptor or an address. ``polled`` is the number of descriptors.

    ``seconds`` is its timeout; None: none, or unknown. ``bounded`` means that it has a timeout.
    """

    call: ThreadCall
    first: int = 0
    polled: int = 0
    seconds: float | None = None
    bounded: bool = False


RUNS: Final = CallSeen(ThreadCall.NONE)
OTHER: Final = CallSeen(ThreadCall.OTHER)


def parse_call(text: bytes, machine: str) -> CallSeen:
    """Parse the line of /proc/PID/syscall of a program for ``machine`` (as in uname). Pure.

    An invalid line, or one of an unknown machine, is `OTHER`.
    """
    words = text.split()
    if words[:1] == [b"running"]:
        return RUNS
    if words[:1] == [b"-1"]:
        return CallSeen(ThreadCall.FAULT)
    if len(words) != _WORDS:
        return OTHER
    try:
        number = int(words[0])
        call = _MACHINES.get(machine, {}).get(number)
        return (
            OTHER if call is None else _seen(call, [int(word, 16) for word in words[1:5]], (machine, number) == _PPOLL)
        )
    except ValueError:
        return OTHER


def _seen(call: ThreadCall, arguments: list[int], by_address: bool) -> CallSeen:
    first, second, third, fourth = arguments
    if call is ThreadCall.LOCK:
        return CallSeen(call, first, bounded=fourth != 0)
    if call is not ThreadCall.POLL:
        return CallSeen(call, first)
    if by_address:
        return CallSeen(call, first, second, bounded=third != 0)
    low = third % _WORD
    milliseconds = low - _WORD if low & _SIGN else low
    if milliseconds < 0:
        return CallSeen(call, first, second)
    return CallSeen(call, first, second, milliseconds / 1000, bounded=True)


class WatchedThread:
    """A thread whose calls are sampled repeatedly. Raises OSError if it is gone or not accessible.

    It keeps /proc/PID/task/TID/syscall open, so that a later process with its number is never sampled. The kernel
    checks the right to trace the process at each look, and nothing is read of the process's memory.
    """

    def __init__(self, pid: int, thread: int) -> None:
        self.pid = pid
        self._machine = os.uname().machine
        self._file = os.open(_PROC / str(pid) / "task" / str(thread) / "syscall", os.O_RDONLY | os.O_CLOEXEC)

    def look(self) -> CallSeen:
        """Return the thread's current call. Takes some 5 microseconds. Raises OSError if it is gone."""
        return parse_call(os.pread(self._file, _MOST_BYTES, 0), self._machine)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def threads_of(pid: int, most: int) -> list[int]:
    """Return the threads of a process, the main one first, ``most`` at most. Raises OSError if it is gone."""
    with os.scandir(_PROC / str(pid) / "task") as entries:
        found = [int(entry.name) for entry in islice(entries, most)]
    return sorted(found, key=lambda one: one != pid)


def look_once(pid: int, thread: int) -> CallSeen:
    """Return a thread's current call. Raises OSError if it is gone or not accessible."""
    watched = WatchedThread(pid, thread)
    try:
        return watched.look()
    finally:
        watched.close()
