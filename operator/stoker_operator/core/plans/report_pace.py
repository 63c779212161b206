"""How often nodes report values that only change with progress, such as bytes in flight. Pure."""

from stoker_api.node_caches.nodecache import REPORT_SECONDS

REPORTS_A_SECOND = 20.0  # progress reports of all nodes together


def report_step(nodes: int) -> int:
    """Return the seconds between two reports of a node in a cluster of this size: the minimum, doubled as needed.

    It changes in steps, because each change writes every NodeCache.
    """
    seconds = REPORT_SECONDS
    while nodes > seconds * REPORTS_A_SECOND:
        seconds *= 2
    return seconds


def report_seconds(nodes: int, now: int) -> int:
    """Return the interval for a node whose current interval is ``now``.

    Keep one that is only slightly too long, to save a write.
    """
    step = report_step(nodes)
    return now if step <= now <= 2 * step else step
