"""What is left free of the disks that the sidecar writes to, and what of them may still be taken. Pure."""

import re
import sys
from dataclasses import dataclass
from typing import NamedTuple, Self

# What several programs say of the same setting.
FLOOR_BYTES = "what is left free of the disks that are written to: a share such as 16%, or an amount such as 50Gi"
FLOOR_INODES = "how many of their inodes are left free: a share such as 15%, or a number"
_PERCENT = re.compile(r"(\d{1,2}(?:\.\d+)?)\s*%")
_NUMBER = re.compile(r"[0-9]{1,18}")
# Of the floor for cached bytes: what a version cannot be read without may go a twentieth below it, since a cache that
# is full lies at its floor for good.
_FOR_METADATA = 0.95


class DiskSpace(NamedTuple):
    """What a file system says of itself, in bytes and in inodes; ``inodes_total`` is 0 where they have no limit."""

    available: int
    total: int
    inodes_available: int = 0
    inodes_total: int = 0


NOTHING = DiskSpace(0, 0)


def _quantity(text: str) -> int:
    """Read an amount, as our CRDs take it; pydantic, which comes with them, takes 0.13 s that a short program saves."""
    if _NUMBER.fullmatch(text):  # as a floor is written for other programs
        return int(text)
    from stoker_api.meta import parse_quantity

    return parse_quantity(text)


@dataclass(frozen=True)
class Floor:
    """What is left free of a disk: ``share`` of the whole and ``amount``, of which one is 0."""

    share: float = 0.0
    amount: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``16%``, or an amount such as ``50Gi``. Raises ValueError with a sentence."""
        percent = _PERCENT.fullmatch(text.strip())
        if percent is not None:
            return cls(share=float(percent[1]) / 100)
        try:
            return cls(amount=_quantity(text.strip()))
        except ValueError as error:
            raise ValueError(f"{text!r} is no floor: write a share such as 16%, or an amount such as 50Gi") from error

    def __str__(self) -> str:
        return str(self.amount) if self.amount or not self.share else f"{self.share * 100:g}%"

    def of(self, total: int) -> int:
        """Return what is left free of ``total``."""
        return min(total, int(total * self.share) + self.amount)

    def scaled(self, factor: float) -> "Floor":
        """Return a floor of ``factor`` times the height."""
        return Floor(self.share * factor, int(self.amount * factor))


@dataclass(frozen=True)
class DiskFloor:
    """What is left free of a disk in bytes and in inodes.

    The defaults lie above the kubelet's own thresholds, at which it evicts pods: 10 % of the bytes where its logs and
    volumes are, 15 % where images are, and 5 % of the inodes.
    """

    bytes: Floor = Floor(share=0.16)
    inodes: Floor = Floor(share=0.15)

    def bytes_left(self, space: DiskSpace) -> int:
        """Return the bytes that new files may take; none when they may take no inode."""
        if self.inodes_left(space) == 0:
            return 0
        return max(0, space.available - self.bytes.of(space.total))

    def inodes_left(self, space: DiskSpace) -> int:
        """Return how many new files there may be."""
        if space.inodes_total == 0:
            return sys.maxsize
        return max(0, space.inodes_available - self.inodes.of(space.inodes_total))

    def for_metadata(self) -> "DiskFloor":
        """Return the floor for lists of files and layers of placeholders: a little below that for cached bytes."""
        return DiskFloor(self.bytes.scaled(_FOR_METADATA), self.inodes.scaled(_FOR_METADATA))


NO_FLOOR = DiskFloor(Floor(), Floor())
