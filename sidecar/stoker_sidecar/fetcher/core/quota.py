"""Whether a file may stay on the disk. What is in stays in: under shuffled epochs, eviction only costs hits."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    """Bytes. ``used``: what the dataset keeps; ``quota``: None for no limit; ``free``: of the disk, less the floor."""

    used: int
    quota: int | None
    free: int

    def within_quota(self, size: int) -> bool:
        """Whether a file of this size fits the dataset's quota."""
        return self.quota is None or self.used + size <= self.quota

    def on_disk(self, size: int) -> bool:
        """Whether it fits the disk."""
        return size <= self.free

    def admits(self, size: int) -> bool:
        """Whether it is kept; else it is read through."""
        return self.within_quota(size) and self.on_disk(size)


def free_bytes(available: int, total: int, floor_share: float, floor_most: int) -> int:
    """What new files may take of a disk: ``available`` less a floor of a share of it, ``floor_most`` at most."""
    floor = min(int(total * floor_share), floor_most)
    return max(0, available - floor)
