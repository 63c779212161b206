"""How much of the machine's memory may be filled with pages that nobody has read yet. Pure."""

from dataclasses import dataclass, replace

# Of the machine's memory, and of what is left of the sidecar's own limit, to which the kernel counts such pages.
_SHARE, _SHARE_OF_LIMIT = 1 / 4, 3 / 4
# Of the machine's memory; with less available others need what there is.
_LEAST_AVAILABLE = 1 / 10
# Percent of the last ten seconds in which some process of the machine waited for memory.
_MOST_PRESSURE = 5.0
# Of the page cache of a group with a limit, where it does not hold a version. The kernel may keep half of it for pages
# that came again soon after they were dropped; what was read last, and what is ahead of readers, is in the other.
_UNREAD = 1 / 4
# The part of the room that is left to what readers are known to read next while there is such pressure.
_PRESSED = 4


@dataclass(frozen=True)
class MemoryFigures:
    """The machine's memory, bytes. ``available``: without swapping, as the kernel estimates it.

    ``limit``: of the own cgroup; None: it has none. ``bound``: what of that is no page cache. ``pressure``: percent of
    the last ten seconds in which some process waited for memory; None: the kernel does not say.
    """

    total: int
    available: int
    limit: int | None = None
    bound: int = 0
    pressure: float | None = None


def page_room(memory: MemoryFigures, taken: int) -> int:
    """Return the bytes that may be read into the page cache now, where ``taken`` have been. 0 where memory is short."""
    if memory.available < memory.total * _LEAST_AVAILABLE or (memory.pressure or 0.0) >= _MOST_PRESSURE:
        return 0
    share = memory.total * _SHARE
    if memory.limit is not None:
        share = min(share, (memory.limit - memory.bound) * _SHARE_OF_LIMIT)
    return max(0, int(share) - taken)


def is_too_large(memory: MemoryFigures, size: int) -> bool:
    """Tell whether a version of ``size`` bytes does not fit into memory.

    What was read is then gone before it is read again, whoever drops it.
    """
    return size > memory.available


def foreseen_room(memory: MemoryFigures, taken: int, size: int) -> int:
    """Return the bytes of a version of ``size`` bytes that may be ahead of readers in a known order.

    Pages that a sidecar with a limit brings are charged to it, and drive out those before them, the oldest first: two
    thirds leave some for readers that are not where they were reckoned to be, and less of a version that is larger.
    Where all of the version fits into the machine's memory and not into that, none are brought: what readers bring
    themselves stays for later epochs. Readers of more than there is memory for are pressure themselves: without a limit
    the window is smaller then, and not closed, as what is in it they read next anyway.
    """
    room = page_room(replace(memory, pressure=None), taken)
    if memory.limit is not None:
        room = room * 2 // 3
        if is_too_large(memory, size):
            return min(room, int((memory.limit - memory.bound) * _UNREAD))
        return 0 if room < size else room
    return room // _PRESSED if (memory.pressure or 0.0) >= _MOST_PRESSURE else room
