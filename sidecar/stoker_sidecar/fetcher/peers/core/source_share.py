"""The part of a version that a node's group fetches from the source, and how it grows without arrivals. Pure."""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import NamedTuple

from stoker_api.node_caches.node_dataset import EVERYTHING

# Divisors: the part of a node's remaining share that it requests at the same time. The second is for small files.
_SIDE_BY_SIDE, _SMALL_SIDE_BY_SIDE = 4, 8
# Bytes up to which a source takes as long to answer as to send. Then the minimum number of requests for such files.
_SMALL, _LEAST_SMALL = 2**20, 2


def side_by_side(left: int, size: int, most: int) -> int:
    """Return the number of parallel requests for a node's share while other nodes wait for its files.

    Parallel requests all end at the same time, and until then the node has nothing to give. So only a part of the share
    is requested at once. ``left``: items that have not begun. ``size``: bytes of the next item. ``most``: the number of
    requests if no node waited.
    """
    if size <= _SMALL:
        return min(most, max(_LEAST_SMALL, left // _SMALL_SIDE_BY_SIDE))
    return min(most, max(1, left // _SIDE_BY_SIDE))


def helped(left: Mapping[int, int], position: int, nodes: int) -> tuple[int, int] | None:
    """Return the node that the one at ``position`` of ``nodes`` helps, and the piece. None: no node needs help.

    ``left``: pieces that have not begun, by position. The piece counts from the last one, 1. It is never the first,
    which its node begins next. Each helper counts by its distance, so that no two fetch the same piece before they hear
    of it.
    """
    for other, pieces in sorted(left.items(), key=lambda each: (-each[1], each[0])):
        if (distance := (position - other) % nodes) < pieces:
            return other, distance
    return None


# Number of turns. Groups of 2 to 6, 8, 10, 12, 15 and 16 nodes divide it evenly.
TURNS = 240
# The turn of items that another group fetches.
ELSEWHERE = 253
# EVERYTHING by the golden ratio. It spreads successive files and pieces so evenly that parts of equal width contain the
# same number of them, within one or two.
_STEP = 2_654_435_769
# Multiple of the patience without arrivals after which this group fetches more.
_STUCK = 3


class SourceShare(NamedTuple):
    """A part of EVERYTHING that starts at ``first`` and wraps around at the end."""

    first: int = 0
    width: int = EVERYTHING

    @property
    def is_all(self) -> bool:
        """Return True if no other node fetches anything."""
        return self.width >= EVERYTHING

    def doubled(self) -> "SourceShare":
        """Return a part of twice the width with the same start."""
        return self._replace(width=min(EVERYTHING, 2 * self.width))

    def turns(self) -> Iterator[int]:
        """Yield the turn of each file or piece of a version, by its number. Items in the part take turns in order."""
        taken = 0
        for number in count():
            if (number * _STEP - self.first) % EVERYTHING < self.width:
                yield taken % TURNS
                taken += 1
            else:
                yield ELSEWHERE

    def begin(self, position: int, nodes: int) -> float:
        """Return the position in a version, from 0 to 1, where a node begins with the items that peers give.

        Nodes begin at different positions, so that they hold different items to give. A single group goes in order.
        """
        return 0.0 if self.is_all else (self.first / EVERYTHING + position / nodes) % 1.0


class ShareGrowth:
    """Growth of a group's share in a pass. ``patience``: seconds that this node waits for a node without progress.

    If nothing comes for long, the nodes that were to fetch it are gone. Each group then fetches the part of the next
    group, and so on. The share doubles each time, so that few nodes request the same thing. In the end each node
    fetches all.
    """

    def __init__(self, share: SourceShare, patience: float) -> None:
        self.share = share
        self.alone = False
        self._planned = share
        self._patience = patience
        self._grown_at = float("-inf")

    @property
    def has_grown(self) -> bool:
        """Return True if the share is larger than planned."""
        return self.share != self._planned

    def grows(self, landed_at: float, now: float) -> bool:
        """Return True if the share grows at ``now``. ``landed_at``: the last arrival, seconds of any clock."""
        waited = now - max(landed_at, self._grown_at)
        if self.alone or waited <= self._patience * (1 if self.has_grown else _STUCK):
            return False
        self.alone, self._grown_at = self.share.is_all, now
        self.share = self.share.doubled()
        return not self.alone
