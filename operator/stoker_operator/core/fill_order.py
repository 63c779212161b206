"""The order in which nodes are given new replicas, kept for all Datasets of a pass that lack some."""

from collections.abc import Container
from heapq import heapify, heappop, heappush, nsmallest
from typing import Final, NamedTuple

from stoker_operator.core.node_room import FillRoom, Selection
from stoker_operator.core.steps import Steps

_AT_ONCE = 100  # looks at a node, of 5 us each


class FreshRank(NamedTuple):
    """What decides about the order of nodes with room: tainted ones late, then the emptiest, then the freest."""

    tainted: bool
    given: int
    taken: int  # less than nothing: bytes that are free
    name: str


def fresh_rank(selection: Selection, room: FillRoom, name: str) -> FreshRank:
    """Return the rank of a node among those that have room."""
    tainted = selection.rule.comes_late(selection.everywhere[name])
    return FreshRank(tainted, room.given(name), -room.free(name), name)


class FillOrder:
    """The nodes of a selection that may be given something new. What is taken meanwhile only moves them back.

    A node's rank is looked at again when it comes to the front, so that a Dataset costs what it takes, and not a look
    at all nodes.
    """

    def __init__(self, selection: Selection, room: FillRoom) -> None:
        self._selection: Final = selection
        self._room: Final = room
        self._ranks: list[FreshRank] | None = None  # a heap, once anybody has asked

    def first(self, most: int, need: int, but: Container[str]) -> Steps[list[str]]:
        """Return so many nodes at most that are not in ``but``: the first, those with room for ``need`` bytes first."""
        if self._ranks is None:
            self._ranks = yield from self._all_ranks()
        ranks, fitting, full, seen = self._ranks, list[str](), list[FreshRank](), list[FreshRank]()
        looks = 0
        while ranks and len(fitting) < most:
            looks += 1
            if looks % _AT_ONCE == 0:
                yield
            rank = heappop(ranks)
            now = fresh_rank(self._selection, self._room, rank.name)
            if now != rank:
                heappush(ranks, now)
                continue
            seen.append(rank)
            if rank.name in but:
                continue
            if self._room.fits(rank.name, need):
                fitting.append(rank.name)
            else:
                full.append(rank)
        for rank in seen:
            heappush(ranks, rank)
        # How many a node without room was given does not matter.
        rest = nsmallest(most - len(fitting), full, key=lambda rank: (rank.tainted, rank.taken, rank.name))
        return fitting + [rank.name for rank in rest]

    def _all_ranks(self) -> Steps[list[FreshRank]]:
        ranks = list[FreshRank]()
        for name in self._selection.fresh:
            ranks.append(fresh_rank(self._selection, self._room, name))
            if len(ranks) % _AT_ONCE == 0:
                yield
        heapify(ranks)
        return ranks


class FillOrders:
    """The orders of all selections, for as long as nothing is given back to ``room``."""

    def __init__(self, room: FillRoom) -> None:
        self._room: Final = room
        self._orders: Final[dict[int, tuple[Selection, FillOrder]]] = {}  # by what the selection is

    def of(self, selection: Selection) -> FillOrder:
        """Return the order of a selection's nodes."""
        if id(selection) not in self._orders:
            self._orders[id(selection)] = (selection, FillOrder(selection, self._room))
        return self._orders[id(selection)][1]
