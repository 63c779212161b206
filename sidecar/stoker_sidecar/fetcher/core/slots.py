"""Shares the node's warm-up requests among its datasets: by priority, and so that none is ever stopped by another."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Warming:
    """A dataset that has something to fetch. ``failing``: its last request failed, so one request tries at a time."""

    priority: int
    failing: bool = False


def warm_slots(datasets: Mapping[str, Warming], total: int) -> dict[str, int]:
    """uid -> requests in flight. Highest priority shares what is left after one request for each other dataset.

    ``total``: what the node may have in flight. Nobody gets less than one.
    """
    healthy = {uid: dataset.priority for uid, dataset in datasets.items() if not dataset.failing}
    first = [uid for uid, priority in healthy.items() if priority == max(healthy.values())]
    share = max(1, (total - (len(datasets) - len(first))) // len(first)) if first else 1
    return {uid: share if uid in first else 1 for uid in datasets}
