"""How fast a Dataset is read, from counters that who sees its reads sends now and then. Pure."""

from typing import NamedTuple

# Bytes of an item where files are larger: as chunks are counted in the rest of what is told of workloads.
ITEM_BYTES = 8 * 2**20


class ReadCount(NamedTuple):
    """What was read of a Dataset so far, in items; and until when, in seconds, monotonic."""

    until: float = 0.0
    items: float = 0.0


def items_a_second(before: ReadCount, after: ReadCount) -> float | None:
    """Return items a second between two counts; None: nothing was read, or nothing was told meanwhile."""
    seconds, items = after.until - before.until, after.items - before.items
    return items / seconds if seconds > 0 and items > 0 else None
