"""The space to leave free on the sidecar's disks, and the space left for files. Pure."""

import re
import sys
from dataclasses import dataclass
from typing import NamedTuple, Self

# Help texts of the same setting in several programs.
FLOOR_BYTES = "what is left free of the disks that are written to: a share such as 16%, or an amount such as 50Gi"
FLOOR_INODES = "how many of their inodes are left free: a share such as 15%, or a number"
_PERCENT = re.compile(r"(\d{1,2}(?:\.\d+)?)\s*%")
_NUMBER = re.compile(r"[0-9]{1,18}")
# Share of the floor for cached bytes. Metadata, without which a version is unreadable, may go a twentieth below it,
# because a full cache stays at its floor.
_FOR_METADATA = 0.95


class DiskSpace(NamedTuple):
    """A file system's space, in bytes and inodes. ``inodes_total`` is 0 without a limit."""

    available: int
    total: int
    inodes_available: int = 0
    inodes_total: int = 0


NOTHING = DiskSpace(0, 0)


def _quantity(text: str) -> int:
    """Parse an amount as in the CRDs. Importing pydantic with them takes 0.13 s, which a short program saves."""
    if _NUMBER.fullmatch(text):  # the form in which a floor is passed to other programs
        return int(text)
    from stoker_api.meta import parse_quantity

    return parse_quantity(text)


@dataclass(frozen=True)
class Floor:
    """The space to leave free on a disk: a ``share`` of the whole, or an ``amount``. One of them is 0."""

    share: float = 0.0
    amount: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``16%``, or an amount such as ``50Gi``. Raises ValueError with a sentence."""
        percent = _PERCENT.fullmatch(text.strip())
        if percent is not None:
            return cls(share=float(percent[1]) / 100)
        try:
            return cls(amount=_quantity(text.strip()))
        except ValueError as error:
            raise ValueError(
                f"{text!r} is not a floor: write a share such as 16%, or an amount such as 50Gi"
            ) from error

    def __str__(self) -> str:
        return str(self.amount) if self.amount or not self.share else f"{self.share * 100:g}%"

    def of(self, total: int) -> int:
        """Return the part of ``total`` to leave free."""
        return min(total, int(total * self.share) + self.amount)

    def scaled(self, factor: float) -> "Floor":
        """Return the floor multiplied by ``factor``."""
        return Floor(self.share * factor, int(self.amount * factor))


@dataclass(frozen=True)
class DiskFloor:
    """The space to leave free on a disk, in bytes and in inodes.

    The defaults exceed the kubelet's thresholds for evicting pods: 10 % of the bytes on the disk of logs and volumes,
    15 % on the disk of images, and 5 % of the inodes.
    """

    bytes: Floor = Floor(share=0.16)
    inodes: Floor = Floor(share=0.15)

    def bytes_left(self, space: DiskSpace) -> int:
        """Return the bytes left for new files; 0 if no inode is left."""
        if self.inodes_left(space) == 0:
            return 0
        return max(0, space.available - self.bytes.of(space.total))

    def inodes_left(self, space: DiskSpace) -> int:
        """Return the number of inodes left for new files."""
        if space.inodes_total == 0:
            return sys.maxsize
        return max(0, space.inodes_available - self.inodes.of(space.inodes_total))

    def for_metadata(self) -> "DiskFloor":
        """Return the floor for file lists and placeholder layers, slightly below that for cached bytes."""
        return DiskFloor(self.bytes.scaled(_FOR_METADATA), self.inodes.scaled(_FOR_METADATA))


NO_FLOOR = DiskFloor(Floor(), Floor())
