"""Which files leave a full cache for files of the same version that matter more. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

# Files that leave in one exchange: 16 MB of memory. A file for which more would have to leave does not come.
MOST_LEAVING = 100_000


class Ranked(NamedTuple):
    """A file of a version. ``rank``: of what is kept when not all fits, higher is kept first; ``size`` in bytes."""

    ino: int
    size: int
    rank: int


@dataclass
class Exchange:
    """What leaves, and what is to come in its place, by inode."""

    leaving: list[Ranked] = field(default_factory=list)
    coming: list[int] = field(default_factory=list)


def exchange(wanted: Iterable[Ranked], kept: Iterable[Ranked], sizes: Counter[int], spare: int) -> Exchange:
    """Choose what leaves so that wanted files fit.

    ``wanted``: that found no room, who comes first first. ``kept``: who leaves first first, by rank; ``sizes``: bytes
    of all of them, by rank. ``spare``: bytes that are free; less than 0: what is kept is too much already. A file makes
    way for one of a higher rank alone, and only where that one then fits.
    """
    found, leavers, left = Exchange(), iter(kept), Counter(sizes)
    for file in wanted:
        if spare + sum(size for rank, size in left.items() if rank < file.rank) < file.size:
            continue
        chosen = _until_it_fits(file, spare, leavers, MOST_LEAVING - len(found.leaving))
        spare += sum(leaver.size for leaver in chosen)
        if spare < file.size:  # too many would have to leave, or some that were counted on cannot
            break
        for leaver in chosen:
            left[leaver.rank] -= leaver.size
        found.leaving += chosen
        found.coming.append(file.ino)
        spare -= file.size
    return found


def _until_it_fits(file: Ranked, spare: int, leavers: Iterator[Ranked], most: int) -> list[Ranked]:
    chosen: list[Ranked] = []
    while spare < file.size and len(chosen) < most:
        leaver = next(leavers, None)
        if leaver is None or leaver.rank >= file.rank:
            break
        chosen.append(leaver)
        spare += leaver.size
    return chosen
