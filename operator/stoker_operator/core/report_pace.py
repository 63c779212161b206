"""How often nodes report what only moves, such as bytes on their way, by how many nodes there are. Pure."""

from stoker_api.nodecache import REPORT_SECONDS

REPORTS_A_SECOND = 20.0  # of figures alone, of all nodes together


def report_step(nodes: int) -> int:
    """Return the seconds between two reports of a node, in a cluster of so many: twice, and twice again, the least.

    In steps, for each is a write to every NodeCache.
    """
    seconds = REPORT_SECONDS
    while nodes > seconds * REPORTS_A_SECOND:
        seconds *= 2
    return seconds


def report_seconds(nodes: int, now: int) -> int:
    """Return what a node is told that was told ``now``; a little slower than need be is not worth a write."""
    step = report_step(nodes)
    return now if step <= now <= 2 * step else step
