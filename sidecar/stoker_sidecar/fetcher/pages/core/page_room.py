"""How much of the machine's memory may hold pages that no reader has read. Pure."""

from dataclasses import dataclass, replace

# Shares of the machine's memory, and of the free part of the sidecar's limit, to which the kernel charges such pages.
_SHARE, _SHARE_OF_LIMIT = 1 / 4, 3 / 4
# Minimum available share of the machine's memory. Below it, other processes need the memory.
_LEAST_AVAILABLE = 1 / 10
# Percent of the last ten seconds in which some process of the machine waited for memory.
_MOST_PRESSURE = 5.0
# Share of a limited cgroup's page cache that may be unread, where a version does not fit. The kernel may keep half of
# that cache for pages that returned soon after they were dropped. The second half holds the pages read last and those
# ahead of readers.
_UNREAD = 1 / 4
# Divisor of the room for known next reads under such pressure.
_PRESSED = 4


@dataclass(frozen=True)
class MemoryFigures:
    """The machine's memory, bytes. ``available``: without swapping, by the kernel's estimate.

    ``limit``: of this cgroup; None: unlimited. ``bound``: the part of it that is no page cache. ``pressure``: percent
    of the last ten seconds in which a process waited for memory; None: unknown.
    """

    total: int
    available: int
    limit: int | None = None
    bound: int = 0
    pressure: float | None = None


def page_room(memory: MemoryFigures, taken: int) -> int:
    """Return the bytes that may be read into the page cache now, after ``taken`` bytes. 0 if memory is short."""
    if memory.available < memory.total * _LEAST_AVAILABLE or (memory.pressure or 0.0) >= _MOST_PRESSURE:
        return 0
    share = memory.total * _SHARE
    if memory.limit is not None:
        share = min(share, (memory.limit - memory.bound) * _SHARE_OF_LIMIT)
    return max(0, int(share) - taken)


def is_too_large(memory: MemoryFigures, size: int) -> bool:
    """Return True if a version of ``size`` bytes does not fit into memory.

    Pages that were read are then evicted before the next read, in any case.
    """
    return size > memory.available


def foreseen_room(memory: MemoryFigures, taken: int, size: int) -> int:
    """Return the bytes of a version of ``size`` bytes that may be ahead of readers in a known order.

    The kernel charges prefetched pages to a sidecar with a limit, and evicts its oldest pages. Two thirds of the room
    leave some for readers at an unexpected place. A version that exceeds memory gets less. If the version fits into the
    machine's memory but not into the limit, nothing is prefetched, and pages that readers load stay for later epochs.
    Readers of a version that exceeds memory cause pressure themselves. So without a limit the window then shrinks, but
    stays open, since readers need it next.
    """
    room = page_room(replace(memory, pressure=None), taken)
    if memory.limit is not None:
        room = room * 2 // 3
        if is_too_large(memory, size):
            return min(room, int((memory.limit - memory.bound) * _UNREAD))
        return 0 if room < size else room
    return room // _PRESSED if (memory.pressure or 0.0) >= _MOST_PRESSURE else room
