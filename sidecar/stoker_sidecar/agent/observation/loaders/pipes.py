"""The open pipes of a process, and the file behind a descriptor, from /proc."""

import os
import stat
from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple

# Number of a process's first descriptors to check: some 3 microseconds each.
_MOST_DESCRIPTORS = 1024
# Standard input, output and error do not show which process a program works for.
_GIVEN = (0, 1, 2)
_PIPE: Final = "pipe:["


class PipeEnds(NamedTuple):
    """The ends of a pipe that a process has open."""

    reads: bool = False
    writes: bool = False


def pipes_of(pid: int) -> dict[str, PipeEnds]:
    """Return the pipes of a process by name, without its standard ones. Raises OSError if it is gone."""
    found: dict[str, PipeEnds] = {}
    with os.scandir(f"/proc/{pid}/fd") as entries:
        links = [entry.path for entry in islice(entries, _MOST_DESCRIPTORS)]
    given = {descriptor(pid, number) for number in _GIVEN}
    for link in links:
        pipe = _target(link)
        if pipe.startswith(_PIPE) and pipe not in given:
            mode, ends = _mode(link), found.get(pipe, PipeEnds())
            found[pipe] = PipeEnds(ends.reads or bool(mode & stat.S_IRUSR), ends.writes or bool(mode & stat.S_IWUSR))
    return found


def descriptor(pid: int, number: int) -> str:
    """Return the file behind a process's descriptor: a path, or ``pipe:[inode]``; empty if unknown."""
    return _target(f"/proc/{pid}/fd/{number}")


def is_pipe(target: str) -> bool:
    """Return True if a descriptor is a pipe. Pure."""
    return target.startswith(_PIPE)


def queues_between(reader: Mapping[str, PipeEnds], parent: Mapping[str, PipeEnds]) -> frozenset[str]:
    """Return the pipes through which a process can pass data to its parent, as a multiprocessing queue does. Pure.

    The creator of such a queue keeps both ends of its pipe. A parent that only waits for a child's end has one end, to
    read: that is no queue.
    """
    return frozenset(
        name for name, ends in reader.items() if ends.writes and parent.get(name, PipeEnds()) == PipeEnds(True, True)
    )


def _target(link: str) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115 -- text that is no path, and this is called often
    except OSError:
        return ""


def _mode(link: str) -> int:
    try:
        return os.lstat(link).st_mode
    except OSError:
        return 0
