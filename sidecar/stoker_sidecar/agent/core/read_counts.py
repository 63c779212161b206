"""How fast a Dataset is read, from counters that who sees its reads sends now and then. Pure."""

from typing import NamedTuple

# Bytes of an item where files are larger: as chunks are counted in the rest of what is told of workloads.
ITEM_BYTES = 8 * 2**20


class ReadCount(NamedTuple):
    """What was read of a Dataset so far: bytes by FUSE, files opened; and until when, in seconds, monotonic."""

    until: float = 0.0
    bytes: int = 0
    opens: float = 0.0


def items_a_second(before: ReadCount, after: ReadCount, *, by_bytes: bool) -> float | None:
    """Return items a second between two counts; None: nothing was read, or nothing was told meanwhile.

    ``by_bytes``: an item is ITEM_BYTES of a large file; else it is a file.
    """
    seconds = after.until - before.until
    items = (after.bytes - before.bytes) / ITEM_BYTES if by_bytes else after.opens - before.opens
    return items / seconds if seconds > 0 and items > 0 else None
