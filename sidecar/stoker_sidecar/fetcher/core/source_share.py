"""The part of a version that a node's group fetches from the source, and how it grows where nothing comes. Pure."""

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from stoker_api.node_dataset import EVERYTHING

# Turns, one of which each file or piece has: a number that 2 to 6, 8, 10, 12, 15 and 16 nodes divide evenly.
TURNS = 240
# The turn of what another group is to fetch.
ELSEWHERE = 253
# EVERYTHING by the golden ratio: files and pieces that follow each other lie so far apart, and any number of them so
# evenly, that parts of equal width have as many of them, but for one or two.
_STEP = 2_654_435_769
# In how many times its patience nothing has to come at all, before more is fetched here.
_STUCK = 3


class SourceShare(NamedTuple):
    """A part of EVERYTHING, from ``first`` on; beyond the end it goes on at 0."""

    first: int = 0
    width: int = EVERYTHING

    @property
    def is_all(self) -> bool:
        """Tell whether nobody else fetches anything."""
        return self.width >= EVERYTHING

    def doubled(self) -> "SourceShare":
        """Return the part with as much again of what lies behind it."""
        return self._replace(width=min(EVERYTHING, 2 * self.width))

    def turns(self) -> Iterator[int]:
        """Yield the turn of each file or piece of a version, by its number: those of the part in order, in circles."""
        taken = 0
        for number in count():
            if (number * _STEP - self.first) % EVERYTHING < self.width:
                yield taken % TURNS
                taken += 1
            else:
                yield ELSEWHERE

    def begin(self, position: int, nodes: int) -> float:
        """Return where in a version, from 0 to 1, one of the group's nodes begins with what others give.

        Each elsewhere, so that what they have to give each other differs; one group of all goes in order.
        """
        return 0.0 if self.is_all else (self.first / EVERYTHING + position / nodes) % 1.0


class ShareGrowth:
    """How much a group fetches in a pass. ``patience``: seconds for which a node that does not get on is waited for.

    Where nothing comes for long, those are gone who were to fetch it. Each group then fetches what the one behind it
    was to, and so on: twice as much each time, so that never many ask for the same thing; in the end each node all.
    """

    def __init__(self, share: SourceShare, patience: float) -> None:
        self.share = share
        self.alone = False
        self._planned = share
        self._patience = patience
        self._grown_at = float("-inf")

    @property
    def has_grown(self) -> bool:
        """Tell whether it is more than what was planned."""
        return self.share != self._planned

    def grows(self, landed_at: float, now: float) -> bool:
        """Tell whether it is more from ``now`` on; ``landed_at``: when something came last, seconds of any clock."""
        waited = now - max(landed_at, self._grown_at)
        if self.alone or waited <= self._patience * (1 if self.has_grown else _STUCK):
            return False
        self.alone, self._grown_at = self.share.is_all, now
        self.share = self.share.doubled()
        return not self.alone
