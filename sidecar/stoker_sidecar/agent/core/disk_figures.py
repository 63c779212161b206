"""Figures of the cache disk, without the models of a node's status."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DiskFigures:
    """Bytes of the cache disk, as the fetcher measures them."""

    capacity: int = 0
    used: int = 0
    available: int = 0
