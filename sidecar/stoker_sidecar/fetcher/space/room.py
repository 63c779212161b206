"""Whether a file may stay on the disk, and which idle versions make room for one that is needed more. Pure."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Room(NamedTuple):
    """Room in bytes. ``used``: by the dataset; ``quota``: None for no limit; ``free``: of the disk, less the floor.

    ``inodes``: the number of further files on the disk, less the floor.
    """

    used: int
    quota: int | None
    free: int
    inodes: int = sys.maxsize

    def within_quota(self, size: int) -> bool:
        """Return True if a file of this size fits the dataset's quota."""
        return self.quota is None or self.used + size <= self.quota

    def on_disk(self, size: int) -> bool:
        """Return True if it fits the disk."""
        return size <= self.free and self.inodes > 0

    def admits(self, size: int) -> bool:
        """Return True if it is kept. Otherwise it is read through."""
        return self.within_quota(size) and self.on_disk(size)


@dataclass(frozen=True)
class Asker:
    """The dataset that does not fit. ``held``: pods of this node have mounted it."""

    uid: str
    priority: int
    held: bool


@dataclass(frozen=True)
class Idle:
    """A version on the same folder. ``size``: bytes that dropping it frees.

    ``used_at``: when its dataset was last read or mounted, in seconds since 1970.

    ``busy``: mounted here, or a reader waits for it. ``current``: the version that new mounts get, else an older one.
    """

    uid: str
    digest: str
    size: int
    priority: int
    used_at: float
    pinned: bool = False
    busy: bool = False
    current: bool = True


def victims(need: int, asker: Asker, versions: Iterable[Idle]) -> tuple[Idle, ...]:
    """Choose the versions to evict so that ``need`` bytes become free. Empty if that is impossible.

    Unread older versions go first, then whole datasets, the least recently used first. Busy versions stay. Pinned
    datasets and those of a higher priority stay. Datasets of the same priority go only if pods here use the asker.
    """
    candidates = sorted(
        (version for version in versions if _may_go(version, asker)),
        key=lambda version: (version.current, version.used_at, version.uid, version.digest),
    )
    chosen: list[Idle] = []
    for version in candidates:
        if sum(one.size for one in chosen) >= need:
            break
        chosen.append(version)
    if need <= 0 or sum(one.size for one in chosen) < need:
        return ()
    return _without_needless(chosen, need)


def may_return(need: int, free: int, *, held: bool, pinned: bool) -> bool:
    """Return True if an evicted dataset may be warmed again: it is wanted here, or it fits without evictions."""
    return held or pinned or need <= free


def _may_go(version: Idle, asker: Asker) -> bool:
    if version.busy or version.size <= 0:
        return False
    if version.uid == asker.uid:
        return not version.current
    if version.pinned:
        return False
    return version.priority < asker.priority or (asker.held and version.priority == asker.priority)


def _without_needless(chosen: list[Idle], need: int) -> tuple[Idle, ...]:
    """Leave out earlier ones that the size of the last makes needless; the most recently used stay first."""
    spare = sum(one.size for one in chosen) - need
    kept: list[Idle] = []
    for version in reversed(chosen):
        if version.size <= spare:
            spare -= version.size
        else:
            kept.append(version)
    return tuple(reversed(kept))
