"""Shares the node's warm-up requests among its datasets: by priority, and so that none is ever stopped by another."""

from collections.abc import Mapping
from dataclasses import dataclass

# Requests in flight for warm-up on a node: 32 small GETs keep one client busy (measured: more gains nothing).
WARM_SLOTS = 32


@dataclass(frozen=True)
class Warming:
    """A dataset that has something to fetch. ``failing``: its last request failed, so one request tries at a time."""

    priority: int
    failing: bool = False


def warm_slots(datasets: Mapping[str, Warming], *, demand: bool, total: int = WARM_SLOTS) -> dict[str, int]:
    """uid -> requests in flight. Highest priority shares what is left after one request for each other dataset.

    ``demand``: readers wait for bytes, so warming keeps a quarter. Nobody gets less than one.
    """
    budget = max(1, total // 4) if demand else total
    healthy = {uid: dataset.priority for uid, dataset in datasets.items() if not dataset.failing}
    first = [uid for uid, priority in healthy.items() if priority == max(healthy.values())]
    share = max(1, (budget - (len(datasets) - len(first))) // len(first)) if first else 1
    return {uid: share if uid in first else 1 for uid in datasets}


def chunk_slots(slots: int) -> int:
    """Of a dataset's slots, how many may fetch chunks of large files: 8 of 32 fill a link, and each holds a megabyte."""
    return max(1, slots // 4)
